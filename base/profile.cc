#include "base/profile.h"

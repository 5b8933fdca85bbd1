#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_FUNCTION_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_FUNCTION_H_

// A function of a library that is loaded at run time, with the name that errors
// give it.

#include <cstddef>

namespace ucudnn::cudnn {

template <class Type>
class Function;

template <class R, class... P>
class Function<R(P...)> {
 public:
  // Libraries without it may have it under its `old_name`.
  explicit constexpr Function(const char* name, const char* old_name = nullptr)
      : name_(name), old_name_(old_name) {}
  // Null if the library does not have it.
  Function& operator=(R (*found)(P...)) {
    pointer_ = found;
    return *this;
  }

  R operator()(P... parameters) const { return pointer_(parameters...); }
  bool operator==(std::nullptr_t) const { return pointer_ == nullptr; }

  const char* name() const { return name_; }
  const char* old_name() const { return old_name_; }
  auto pointer() const { return pointer_; }

 private:
  const char* name_;
  const char* old_name_;
  R (*pointer_)(P...) = nullptr;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_FUNCTION_H_

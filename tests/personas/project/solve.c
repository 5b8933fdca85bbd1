/* An external program that uses only the solvers. */
#include <stdio.h>
#include <string.h>
#include <ucudnn/solve.h>

static const char kTimes[] =
    "gpu,batch,time_us\n"
    "fast,4,10\nfast,6,15\nslow,2,20\nslow,4,40\n";

int main(void) {
  char* answer = NULL;
  const int status =
      ucudnn_solve_assign(kTimes, strlen(kTimes), "{\"batch\":8}", &answer);
  const int right = status == 0 && strstr(answer, "\"batch\":6") != NULL;
  printf("%s %d %s\n", right ? "ok" : "wrong", status,
         answer == NULL ? "" : answer);
  ucudnn_solve_free(answer);
  return right ? 0 : 1;
}

/* An external program without MPI. */
#include <stdio.h>
#include <string.h>
#include <ucudnn/ucudnn.h>

int main(void) {
  if (strstr(ucudnn_strerror(UCUDNN_NOT_FOUND), "NOT_FOUND") == NULL) return 1;
  if (strcmp(ucudnn_last_error_message(NULL), "") != 0) return 2;
  printf("ok %s\n", ucudnn_version());
  return 0;
}

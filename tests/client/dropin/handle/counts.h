#ifndef UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_COUNTS_H_
#define UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_COUNTS_H_

// How often this program and all that it loads called operator new, and locked
// a mutex. Not under the thread sanitizer, which has such functions of its own.

bool IsCounting();
int Allocations();
int Locks();

#endif  // UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_COUNTS_H_

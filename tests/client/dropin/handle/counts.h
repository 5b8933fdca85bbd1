#ifndef UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_COUNTS_H_
#define UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_COUNTS_H_

// Counts the calls of operator new and the mutex locks of this program and its
// libraries. Not under the thread sanitizer, which replaces these functions
// itself.

bool IsCounting();
int Allocations();
int Locks();

#endif  // UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_COUNTS_H_

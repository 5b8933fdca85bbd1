#ifndef UCUDNN_BASE_TEXT_H_
#define UCUDNN_BASE_TEXT_H_

// Text from outside: which of it may be stored, and how to quote the rest in an
// error. JSON and the wire carry UTF-8 only.

#include <cstddef>
#include <string>
#include <string_view>

namespace ucudnn {

// The length of the UTF-8 sequence that `text`, not empty, starts with; 0 if it
// starts with none. Over-long forms, surrogates and code points beyond U+10FFFF
// are not UTF-8.
std::size_t Utf8Length(std::string_view text);

// Whether `text` is UTF-8 without control characters; tabs are allowed.
// O(length).
bool IsPlainText(std::string_view text);

// The beginning of `text` as an error quotes it: at most `max_bytes` of it, cut
// between characters, with "..." for omissions and \xNN for bytes that are not
// plain text. The result is always plain text.
std::string Excerpt(std::string_view text, std::size_t max_bytes = 64);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TEXT_H_

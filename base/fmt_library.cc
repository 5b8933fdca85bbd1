// Compiles fmt into our own library. The client library and the shim run in
// other people's processes and must not need a shared fmt, Debian has no static
// one, and the header-only form would double the time that each of our files
// takes to compile.

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// Explicit instantiations that the headers leave to one file.
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float);
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double);
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view,
                         basic_format_args<buffer_context<char>>, locale_ref);

}  // namespace detail
FMT_END_NAMESPACE

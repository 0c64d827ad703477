//! The C ABI: handles and conversion, nothing else.

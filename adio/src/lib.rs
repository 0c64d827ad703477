//! The file: open, views, pointers, hints, consistency. Knows no concrete driver.

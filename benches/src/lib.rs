//! Measurements, ours and against peers.

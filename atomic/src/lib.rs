//! What must be isolated and for how long. Moves no data.

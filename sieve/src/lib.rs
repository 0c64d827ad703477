//! How a sparse access becomes few large transfers, alone or together: pure plans and one executor.

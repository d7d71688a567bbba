//! The same scripts, run inside the process.

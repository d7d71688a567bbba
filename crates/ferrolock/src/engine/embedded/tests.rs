//! The engine through its seam: scripts, time, messages, closing.
use super::*;

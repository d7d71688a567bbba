//! An engine that lies.

//! One Redis or Valkey server.

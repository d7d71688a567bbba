//! Servers, faults and harnesses for the tests of this workspace.

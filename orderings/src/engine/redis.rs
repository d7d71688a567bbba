//! The library's pulse, and the models of it: it is visible only here.

mod connection;
pub(crate) mod models;

mod trouble {
    #[derive(Debug)]
    pub(super) struct Trouble;
}

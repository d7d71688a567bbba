//! `cargo xtask api`: the public API of the library as one text, derived from its source.
//!
//! The text is kept beside the crate, so that a change of what users can call shows in the diff of the change that
//! made it. It is read from the source as written: no toolchain beside the stable one is needed.

mod describe;
mod impls;
mod names;
mod surface;
mod tokens;

use std::fs;
use std::path::PathBuf;

use crate::tree::Tree;
use crate::{source, workspace};

const CRATE: &str = "ferrolock";
const ROOT: &str = "crates/ferrolock/src/lib.rs";
const KEPT: &str = "crates/ferrolock/public-api.txt";

pub(crate) fn print() -> Result<(), String> {
    print!("{}", current()?.0);
    Ok(())
}

pub(crate) fn write() -> Result<(), String> {
    let (text, path) = current()?;
    fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Fails if the kept text is not that of the source.
pub(crate) fn check() -> Result<(), String> {
    let (text, path) = current()?;
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept == text {
        println!("{KEPT} is up to date");
        return Ok(());
    }
    for line in difference(&kept, &text) {
        println!("{line}");
    }
    Err(format!(
        "the public API is not that of {KEPT}; if the change is meant: `cargo xtask api --write`"
    ))
}

fn current() -> Result<(String, PathBuf), String> {
    let root = workspace::root()?;
    let tree = Tree::read(&root)?;
    Ok((describe(&tree, ROOT, CRATE)?, root.join(KEPT)))
}

fn describe(tree: &Tree, root: &str, name: &str) -> Result<String, String> {
    let modules = source::modules(tree, root)?;
    let names = names::Names::new(&modules);
    let surface = surface::Surface::new(&names, name);
    Ok(describe::text(&names, &surface, name))
}

/// The lines that only one of the two has, in their order.
fn difference(old: &str, new: &str) -> Vec<String> {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    let gone = old.lines().filter(|line| lacks(new, line));
    let come = new.lines().filter(|line| lacks(old, line));
    gone.map(|line| format!("-{line}"))
        .chain(come.map(|line| format!("+{line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = r#"
        mod inner;
        pub mod blocking { pub struct Lock(()); impl Lock { pub fn lock(&self) {} } }
        pub use inner::{Error, Lock as TheLock};
        #[cfg(feature = "redis")]
        pub use inner::Kind;
        #[doc(hidden)]
        pub mod private { pub fn unseen() {} }
        pub use std::time::Duration as Time;
        /// Docs are no signature.
        pub type Maybe<T> = Option<T>;
        #[cfg(test)]
        mod tests { impl super::TheLock { pub fn only_in_tests() {} } }
    "#;

    const INNER: &str = r#"
        use std::fmt;
        #[derive(Clone)] #[must_use = "it is lazy"]
        pub struct Lock<K: Kind = Plain> { pub name: String, kind: K }
        pub struct Plain;
        impl<K: Kind> Lock<K> {
            pub async fn lock<'a>(&'a mut self, wait: impl Into<Wait>) -> Result<&'a [u8], Error> { loop {} }
            pub(crate) fn inside(&self) {}
            #[doc(hidden)] pub fn hidden(&self) {}
        }
        impl<K: Kind> fmt::Debug for Lock<K> { fn fmt(&self) {} }
        impl Secret for Lock {}
        impl From<Error> for std::io::Error { fn from(e: Error) -> Self { loop {} } }
        #[non_exhaustive] pub enum Error { Lost { why: u8 }, Busy(u32) }
        pub trait Kind: Send + 'static { type Grant: ?Sized; const N: usize; fn name(&self) -> &str { "" } }
        trait Secret {}
    "#;

    fn of(lib: &str, inner: &str) -> String {
        let tree = Tree::of(&[("src/lib.rs", lib), ("src/inner.rs", inner)]);
        describe(&tree, "src/lib.rs", "x").unwrap()
    }

    #[test]
    fn the_text_has_the_whole_public_api_and_nothing_else() {
        let text = of(LIB, INNER);

        let expected = r#"
x::Error
    #[non_exhaustive] pub enum Error
        Busy(u32)
        Lost { why: u8 }

x::Kind
    #[cfg(feature = "redis")] pub trait Kind: Send + 'static
        const N: usize
        fn name(&self) -> &str { .. }
        type Grant: ?Sized

x::Maybe
    pub type Maybe<T> = Option<T>

x::TheLock
    #[must_use] pub struct Lock<K: Kind = Plain> { .. }
        pub name: String
    impl<K: Kind = Plain> Clone for Lock<K>
    impl<K: Kind> Lock<K>
        pub async fn lock<'a>(&'a mut self, wait: impl Into<Wait>) -> Result<&'a [u8], Error>
    impl<K: Kind> fmt::Debug for Lock<K>

x::Time
    pub use std::time::Duration

x::blocking
    pub mod blocking

x::blocking::Lock
    pub struct Lock(_)
    impl Lock
        pub fn lock(&self)

types of others
    impl From<Error> for std::io::Error
"#;
        let (_, text) = text.split_once('\n').unwrap();
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn any_change_of_a_signature_shows() {
        let before = of(LIB, INNER);

        for (old, new) in [
            ("&'a mut self", "&'a self"),
            ("impl Into<Wait>", "Wait"),
            ("Busy(u32)", "Busy(u64)"),
            ("pub name", "name"),
            ("derive(Clone)", "derive(Clone, Copy)"),
            ("#[non_exhaustive]", ""),
            ("Send + 'static", "Send + Sync + 'static"),
            ("{ \"\" }", ";"),
            ("for std::io::Error", "for String"),
            ("pub(crate) fn", "pub fn"),
        ] {
            assert!(INNER.contains(old));
            assert_ne!(of(LIB, &INNER.replace(old, new)), before, "{old}");
        }
    }

    #[test]
    fn a_change_inside_does_not_show() {
        let inner = INNER
            .replace("{ loop {} }", "{ panic!() }")
            .replace("trait Secret", "trait Hidden")
            .replace("impl Secret", "impl Hidden");

        assert_eq!(of(LIB, &inner), of(LIB, INNER));
    }

    #[test]
    fn a_macro_call_that_may_make_items_is_listed_with_its_definition() {
        let text = of("mod inner;", "macro_rules! make { () => {} } make! { a }");

        assert!(text.contains("x::inner: make! { a }"), "{text}");
        assert!(
            text.contains("x::inner: macro_rules! make { () => {} }"),
            "{text}"
        );
    }

    #[test]
    fn the_difference_has_each_removed_and_each_added_line() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), ["-a", "+c"]);
    }
}

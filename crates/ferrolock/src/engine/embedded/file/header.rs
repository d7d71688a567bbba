//! The header of a store: what it is, and which clock its deadlines are read from.

use std::fmt::Write as _;

use super::refused;
use crate::engine::{Clock, Failure, Tick};

const TITLE: &str = "ferrolock store";
const FORMAT: &str = "1";

/// The content of the file `store` while the store is being begun.
pub(super) const UNFINISHED: &str = "ferrolock store\n";

/// What must be the same in all processes of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct World {
    /// Changes when the machine starts anew: no earlier process lives, and the clock began again.
    boot: String,
    /// Each time namespace has its own boot clock.
    time_namespace: String,
    /// The C library whose mutexes are in the map.
    c_library: &'static str,
    pointer_bits: u32,
}

/// What the file `store` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) world: World,
    /// Unix time in microseconds when the boot clock was zero, as the store counts it.
    pub(super) offset_micros: i64,
    /// The folder of the map.
    pub(super) map: String,
    /// The map's files, and the file `turn`: others of the same names are not this store's.
    pub(super) files: [u64; 3],
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Nothing is written yet.
    Empty,
    /// The process that began it did not finish.
    Unfinished,
    /// From before the machine was started anew.
    OtherBoot,
    /// Not a store that we may touch.
    Refused(Failure),
}

impl World {
    /// The world of this process.
    pub(super) fn here() -> Result<Self, Failure> {
        let read = |path: &str| {
            std::fs::read_to_string(path)
                .map(|text| text.trim().to_owned())
                .map_err(|error| super::directory::io_trouble(path, &error))
        };
        let namespace = "/proc/self/ns/time";
        let time_namespace = match std::fs::read_link(namespace) {
            Ok(link) => link.to_string_lossy().into_owned(),
            // A kernel without time namespaces has one clock for all.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "none".to_owned(),
            Err(error) => return Err(super::directory::io_trouble(namespace, &error)),
        };
        Ok(Self {
            boot: read("/proc/sys/kernel/random/boot_id")?,
            time_namespace,
            c_library: if cfg!(target_env = "musl") {
                "musl"
            } else if cfg!(target_env = "gnu") {
                "gnu"
            } else {
                "other"
            },
            pointer_bits: usize::BITS,
        })
    }
}

impl Header {
    pub(super) fn new(world: World, map: String, files: [u64; 3]) -> Self {
        let boot_micros = i64::try_from(boot_micros()).unwrap_or(i64::MAX);
        Self {
            world,
            offset_micros: super::super::memory::wall_micros().saturating_sub(boot_micros),
            map,
            files,
        }
    }

    /// Unix time in microseconds by the boot clock, the same in all processes of the store.
    pub(super) fn micros(&self) -> i64 {
        let boot_micros = i64::try_from(boot_micros()).unwrap_or(i64::MAX);
        self.offset_micros.saturating_add(boot_micros)
    }

    pub(super) fn write(&self) -> String {
        let world = &self.world;
        let mut text = format!("{TITLE}\nformat {FORMAT}\n");
        let _ = writeln!(text, "boot {}", world.boot);
        let _ = writeln!(text, "time {}", world.time_namespace);
        let _ = writeln!(text, "c-library {}", world.c_library);
        let _ = writeln!(text, "pointer {}", world.pointer_bits);
        let _ = writeln!(text, "offset {}", self.offset_micros);
        let _ = writeln!(text, "map {}", self.map);
        for file in self.files {
            let _ = writeln!(text, "file {file}");
        }
        text.push_str("end\n");
        text
    }

    /// Reads a header that fits the world we live in.
    pub(super) fn read(text: &str, here: &World) -> Result<Self, Mismatch> {
        if text.is_empty() {
            return Err(Mismatch::Empty);
        }
        if text == UNFINISHED {
            return Err(Mismatch::Unfinished);
        }
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(foreign("its file `store` is not ours"));
        }
        let mut next = |word: &str| {
            let line = lines.next().unwrap_or_default();
            line.strip_prefix(word)
                .and_then(|rest| rest.strip_prefix(' '))
                .ok_or_else(garbled)
        };
        let format = next("format")?;
        if format != FORMAT {
            return Err(foreign(&format!(
                "it was made by another version of ferrolock (format {format}, this one has {FORMAT})"
            )));
        }
        let (boot, time) = (next("boot")?, next("time")?);
        let (library, pointer) = (next("c-library")?, next("pointer")?);
        let number = |text: &str| text.parse::<u64>().map_err(|_| garbled());
        let offset = next("offset")?.parse().map_err(|_| garbled())?;
        let map = next("map")?.to_owned();
        let mut file = || number(next("file")?);
        let files = [file()?, file()?, file()?];
        let is_whole = lines.next() == Some("end") && text.ends_with('\n');
        if !is_whole || !super::parts::is_map(&map) {
            return Err(garbled());
        }
        if boot != here.boot {
            return Err(Mismatch::OtherBoot);
        }
        if library != here.c_library || pointer != here.pointer_bits.to_string() {
            return Err(foreign(&format!(
                "it is used by programs built otherwise ({library}, {pointer} bits; this one: {}, {} bits): give each kind a store of its own",
                here.c_library, here.pointer_bits
            )));
        }
        if time != here.time_namespace {
            return Err(Mismatch::Refused(refused(
                "NAMESPACE",
                format!(
                    "the store is used from another time namespace ({time}; this process: {}), whose clock may differ: give each a store of its own",
                    here.time_namespace
                ),
            )));
        }
        Ok(Self {
            world: here.clone(),
            offset_micros: offset,
            map,
            files,
        })
    }
}

fn boot_micros() -> u128 {
    Clock::Boot.now().since(Tick::ZERO).as_micros()
}

fn foreign(why: &str) -> Mismatch {
    Mismatch::Refused(refused(
        "FOREIGN",
        format!("this is no store that can be used here: {why}"),
    ))
}

fn garbled() -> Mismatch {
    Mismatch::Refused(refused(
        "CORRUPT",
        "the file `store` is damaged: end the processes that use the store and remove its directory",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header::new(
            World::here().unwrap(),
            "map-00112233445566aa".to_owned(),
            [7, 8, 9],
        )
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = header();

        let read = Header::read(&header.write(), &header.world);

        assert_eq!(read, Ok(header));
    }

    #[test]
    fn a_header_of_another_boot_namespace_or_library_is_refused() {
        let header = header();
        let text = header.write();
        let code = |world: &World| match Header::read(&text, world) {
            Err(Mismatch::Refused(Failure::Refused { code, .. })) => code,
            other => format!("{other:?}"),
        };
        let world = header.world;

        let boot = World {
            boot: "another".to_owned(),
            ..world.clone()
        };
        let namespace = World {
            time_namespace: "time:[1]".to_owned(),
            ..world.clone()
        };
        let library = World {
            c_library: "another",
            ..world.clone()
        };
        let pointer = World {
            pointer_bits: 16,
            ..world
        };

        assert_eq!(Header::read(&text, &boot), Err(Mismatch::OtherBoot));
        assert_eq!(code(&namespace), "NAMESPACE");
        assert_eq!(code(&library), "FOREIGN");
        assert_eq!(code(&pointer), "FOREIGN");
    }

    #[test]
    fn a_header_that_is_cut_off_or_not_ours_is_refused() {
        let header = header();
        let text = header.write();

        assert_eq!(Header::read("", &header.world), Err(Mismatch::Empty));
        for end in 1..text.len() {
            let read = Header::read(&text[..end], &header.world);
            let is_unfinished = &text[..end] == UNFINISHED && read == Err(Mismatch::Unfinished);
            let is_refused = matches!(read, Err(Mismatch::Refused(_)));
            assert!(is_unfinished || is_refused, "{end}: {read:?}");
        }
        assert!(Header::read("something else\n", &header.world).is_err());
        assert!(Header::read(&text.replace("map-", "../"), &header.world).is_err());
        assert!(Header::read(&text.replace("format 1", "format 2"), &header.world).is_err());
    }
}

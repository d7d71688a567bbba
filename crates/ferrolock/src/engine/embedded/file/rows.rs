//! How keys and what belongs to them lie in the table of a store.
//!
//! There is one table. The first byte of a row's name says what it is:
//!
//! | first byte | behind it | value |
//! |---|---|---|
//! | `k` | a key | its type, its deadline, its value |
//! | `d` | a deadline, and the name of the row that ends then | nothing |
//! | `l` | a channel, a zero, a session | how many listen to it in that process |
//! | `c` | a client's id | its session |
//! | `s` | a session | the number of its file |
//! | `x` | a session that has ended | nothing |
//! | `g` | when a session was found dead, and the session | nothing |
//! | `y` | the field of a hold that stays when its process ends | nothing |

use super::super::emulator::keyspace::{Data, End, Hash, Keyspace, List, Millis, SortedSet};

/// A row's name, made anew for each look-up.
pub(super) type Name = Vec<u8>;

pub(super) const DEADLINES: &[u8] = b"d";
pub(super) const CLIENTS: &[u8] = b"c";
pub(super) const SESSIONS: &[u8] = b"s";
pub(super) const LISTENERS: &[u8] = b"l";
pub(super) const GRAVES: &[u8] = b"g";

/// The value of a key's row makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled;

pub(super) fn key(key: &[u8]) -> Name {
    [b"k", key].concat()
}

pub(super) fn client(id: &str) -> Name {
    [CLIENTS, id.as_bytes()].concat()
}

pub(super) fn session(name: &str) -> Name {
    [SESSIONS, name.as_bytes()].concat()
}

pub(super) fn ended_session(name: &str) -> Name {
    [b"x", name.as_bytes()].concat()
}

pub(super) fn staying(field: &[u8]) -> Name {
    [b"y", field].concat()
}

pub(super) fn listeners(channel: &[u8]) -> Name {
    [LISTENERS, channel, b"\0"].concat()
}

pub(super) fn listener(channel: &[u8], session: &str) -> Name {
    [LISTENERS, channel, b"\0", session.as_bytes()].concat()
}

/// The session in the name of a listener's row.
pub(super) fn session_of_listener(name: &[u8]) -> Option<&str> {
    let zero = name.iter().rposition(|byte| *byte == 0)?;
    std::str::from_utf8(name.get(zero + 1..)?).ok()
}

pub(super) fn deadline(at: Millis, row: &[u8]) -> Name {
    timed(DEADLINES, at, row)
}

pub(super) fn grave(at: Millis, session: &str) -> Name {
    timed(GRAVES, at, session.as_bytes())
}

/// The time and the rest of the name of a deadline's or a grave's row.
pub(super) fn time_and_rest(name: &[u8]) -> Option<(Millis, &[u8])> {
    let (at, rest) = name.get(1..)?.split_first_chunk()?;
    // The sign is turned round, so that names sort as times do.
    Some((Millis::from_be_bytes(*at) ^ Millis::MIN, rest))
}

fn timed(kind: &[u8], at: Millis, rest: &[u8]) -> Name {
    [kind, &(at ^ Millis::MIN).to_be_bytes(), rest].concat()
}

/// A file, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) device: u64,
    pub(super) number: u64,
}

/// The number in a session's row. The device is that of the store: it may be another one each time that is mounted.
pub(super) fn inode_number(row: &[u8]) -> Option<u64> {
    row.try_into().ok().map(u64::from_be_bytes)
}

/// Writes a key's value and deadline.
pub(super) fn write_value(data: &Data, deadline: Option<Millis>) -> Vec<u8> {
    let kind = match data {
        Data::Text(_) => b't',
        Data::Hash(_) => b'h',
        Data::List(_) => b'l',
        Data::SortedSet(_) => b'z',
    };
    let mut bytes = vec![kind, u8::from(deadline.is_some())];
    bytes.extend(deadline.unwrap_or_default().to_be_bytes());
    match data {
        Data::Text(text) => bytes.extend(text),
        Data::Hash(hash) => {
            let (next, fields) = hash.places();
            bytes.extend(next.to_be_bytes());
            for (place, field, value) in fields {
                bytes.extend(place.to_be_bytes());
                push(&mut bytes, field);
                push(&mut bytes, value);
            }
        }
        Data::List(list) => list.iter().for_each(|item| push(&mut bytes, item)),
        Data::SortedSet(set) => {
            for (member, score) in set.iter_from(0) {
                bytes.extend(score.to_bits().to_be_bytes());
                push(&mut bytes, member);
            }
        }
    }
    bytes
}

/// The deadline in a key's row.
pub(super) fn read_deadline(bytes: &[u8]) -> Result<Option<Millis>, Garbled> {
    Reader(bytes).head().map(|(_, deadline)| deadline)
}

/// Reads a key's row into the keyspace.
pub(super) fn load(keys: &mut Keyspace, key: &[u8], bytes: &[u8]) -> Result<(), Garbled> {
    let mut reader = Reader(bytes);
    let (kind, deadline) = reader.head()?;
    let data = match kind {
        b't' => Data::Text(reader.0.to_vec()),
        b'h' => Data::Hash(reader.hash()?),
        b'l' => Data::List(reader.list()?),
        b'z' => Data::SortedSet(reader.sorted_set()?),
        _ => return Err(Garbled),
    };
    keys.load(key, data, deadline);
    Ok(())
}

fn push(bytes: &mut Vec<u8>, part: &[u8]) {
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(part);
}

fn check(claim: bool) -> Result<(), Garbled> {
    claim.then_some(()).ok_or(Garbled)
}

/// What is left to read. Bytes that [`write_value`] would have written differently are refused.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn head(&mut self) -> Result<(u8, Option<Millis>), Garbled> {
        let [kind, has_deadline] = self.array()?;
        let deadline = Millis::from_be_bytes(self.array()?);
        match (has_deadline, deadline) {
            (0, 0) => Ok((kind, None)),
            (1, deadline) => Ok((kind, Some(deadline))),
            _ => Err(Garbled),
        }
    }

    fn hash(&mut self) -> Result<Hash, Garbled> {
        let next = u64::from_be_bytes(self.array()?);
        let mut fields = Vec::new();
        let mut free = 0;
        while !self.0.is_empty() {
            let place = u64::from_be_bytes(self.array()?);
            check((free..next).contains(&place))?;
            free = place + 1;
            fields.push((place, self.part()?, self.part()?));
        }
        let count = fields.len();
        let hash = Hash::restored(next, fields.into_iter());
        check(count > 0 && hash.len() == count)?;
        Ok(hash)
    }

    fn list(&mut self) -> Result<List, Garbled> {
        let mut list = List::default();
        while !self.0.is_empty() {
            list.push(End::Tail, &self.part()?);
        }
        check(list.len() > 0)?;
        Ok(list)
    }

    fn sorted_set(&mut self) -> Result<SortedSet, Garbled> {
        let mut set = SortedSet::default();
        let (mut last, mut count) = (None, 0);
        while !self.0.is_empty() {
            let score = f64::from_bits(u64::from_be_bytes(self.array()?));
            let is_negative_zero = score == 0.0 && score.is_sign_negative();
            check(!score.is_nan() && !is_negative_zero)?;
            let member = self.part()?;
            set.set(&member, score);
            let this = Some((score, member));
            check(last < this)?;
            last = this;
            count += 1;
        }
        check(count > 0 && set.len() == count)?;
        Ok(set)
    }

    fn part(&mut self) -> Result<Vec<u8>, Garbled> {
        let length = u32::from_be_bytes(self.array()?);
        let length = usize::try_from(length).map_err(|_| Garbled)?;
        let (part, rest) = self.0.split_at_checked(length).ok_or(Garbled)?;
        self.0 = rest;
        Ok(part.to_vec())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbled> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Garbled)?;
        self.0 = rest;
        Ok(*array)
    }
}

#[cfg(test)]
mod tests;

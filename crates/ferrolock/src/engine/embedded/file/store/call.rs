//! A call: its keys are loaded, its script runs on them, and what it changed is written back, all of it or nothing.

use std::path::Path;
use std::sync::Arc;

use super::super::super::emulator::server::{Message, Server};
use super::super::dead::{self, Dead, FoundEntries};
use super::super::expiry::{make_room, purge};
use super::super::map::{Change, full};
use super::super::session::far_listeners;
use super::super::wakes::{Datagram, Mail};
use super::super::{refused, rows};
use super::Store;
use crate::engine::Failure;
use crate::protocol::call::{Call, Value};
use crate::protocol::keys::looks_like_channel;
use crate::protocol::scheme::{self, Standing};

/// How often a script is run again because it used a key or channel that was not loaded. Each run loads all that the one
/// before it asked for, so this is the length of a chain of keys that are found by the values of others.
const RERUNS_MAX: usize = 8;

/// What a call leaves to be done when the turn is over.
#[derive(Default)]
pub(in super::super) struct Effects {
    pub(in super::super) mail: Mail,
    /// Living sessions of other processes that hold what a listener here waits for: the channel, and the session.
    pub(in super::super) in_the_way: Vec<(Arc<str>, Arc<str>)>,
    /// Locks whose holders' processes had ended, and the holders.
    pub(in super::super) freed: Vec<(Arc<str>, Arc<str>)>,
    /// Whether the store now has the client's process.
    pub(in super::super) knows_client: bool,
}

/// What has to be loaded for a script: keys, and the listeners of other processes.
pub(super) struct Needed<'a> {
    call: &'a Call,
    /// In addition to those that the call names.
    more_keys: Vec<Vec<u8>>,
    pub(super) channels: Vec<(Vec<u8>, Listeners)>,
}

/// Sessions that listen to a channel, and how many listeners each has.
type Listeners = Vec<(String, usize)>;

/// A run to the end: the keys it changed are in the server, and nothing is written yet.
struct Ran {
    reply: Result<Value, Failure>,
    found: FoundEntries,
    /// Published by the calls that freed the entries of dead processes.
    of_dead: Vec<Message>,
    /// Published by the call itself.
    own: Vec<Message>,
}

impl Store {
    /// Runs a call of that client, which opened the store by that path.
    pub(in super::super) fn call(
        &mut self,
        asked: Option<&Path>,
        client: Option<&str>,
        call: &Call,
    ) -> (Result<Value, Failure>, Effects) {
        let micros = self.folder.header.micros();
        if !self.folder.verify_in_place(asked, micros) {
            return (self.call_in_vain(micros, call), Effects::default());
        }
        self.call_at(micros, client, call)
    }

    pub(in super::super) fn call_at(
        &mut self,
        micros: i64,
        client: Option<&str>,
        call: &Call,
    ) -> (Result<Value, Failure>, Effects) {
        let done = self.call_through(micros, client, call);
        // A run that ended early may have left messages.
        self.server.take_outbox();
        done.unwrap_or_else(|failure| (Err(failure), Effects::default()))
    }

    /// Outer `Err`: nothing was written. The inner result is the script's: a script that was refused half-way keeps what it
    /// had written, as on a server.
    fn call_through(
        &mut self,
        micros: i64,
        client: Option<&str>,
        call: &Call,
    ) -> Result<(Result<Value, Failure>, Effects), Failure> {
        // At worst there is no room, and a call that needs some is refused.
        let _ = make_room(&mut self.map, micros / 1000);
        let mut change = self.map.begin()?;
        let mut effects = Effects::default();
        if let (Some(client), Some(open)) = (client, &self.session) {
            change.put(&rows::client(client), open.session.name.as_bytes())?;
            effects.knows_client = true;
        }
        let mut needed = Needed::of(call);
        let ran = self.run(&change, micros, &mut needed)?;
        let now = self.server.now();
        if let (Ok(reply), Some((field, stay_ms))) = (&ran.reply, scheme::stays(call))
            && matches!(scheme::read_standing(reply.clone()), Ok(Standing::Ours))
        {
            let row = rows::staying(field.as_bytes());
            change.put(&rows::deadline(now.saturating_add(stay_ms), &row), &[])?;
            change.put(&row, &[])?;
        }
        let grows = write_back(&self.server, &mut change)?;
        purge(&mut change, now)?;
        for dead in &ran.found.dead {
            self.others.bury(&mut change, &dead.session, now)?;
        }
        if grows && self.map.is_full() {
            return Err(full());
        }
        change.commit()?;
        // Only now: while its death is not committed, a session's file is needed to see that it is dead.
        for dead in &ran.found.dead {
            self.others.forget(&dead.session);
        }
        self.address_mail(&needed, &ran, &mut effects.mail);
        self.note_found(ran.found, &mut effects);
        Ok((ran.reply, effects))
    }

    /// Frees the entries of dead processes, then runs the call. A run that asked for a key that was not loaded, or published on
    /// a channel whose listeners were not counted, is thrown away: it may have got wrong replies, and nothing was written. It
    /// is made again with what it asked for. Most scripts name all they use, so that one run is enough; a script that finds
    /// the name of a key or of a channel under another key cannot.
    fn run(
        &mut self,
        change: &Change,
        micros: i64,
        needed: &mut Needed<'_>,
    ) -> Result<Ran, Failure> {
        let call = needed.call;
        self.load(change, micros, needed)?;
        let own = self.session.as_ref().map(|open| &*open.session.name);
        let found = dead::find(&mut self.server, &mut self.others, change, own, call)?;
        let mut is_loaded = found.dead.is_empty();
        for dead in &found.dead {
            needed.add_call(&dead.freeing);
        }
        for _ in 0..=RERUNS_MAX {
            if !is_loaded {
                self.load(change, micros, needed)?;
            }
            let of_dead = self.free(&found.dead);
            let reply = self.interpreter.run(&mut self.server, call);
            let own = self.server.take_outbox();
            if !needed.add_missing(&self.server) {
                return Ok(Ran {
                    reply,
                    found,
                    of_dead,
                    own,
                });
            }
            is_loaded = false;
        }
        let text = format!(
            "the script {} asked {RERUNS_MAX} times for keys or channels that its call does not name: name them",
            call.script.name
        );
        Err(refused("ERR", text))
    }

    /// Loads the keys of a call, and counts the listeners of other processes.
    fn load(
        &mut self,
        change: &Change,
        micros: i64,
        needed: &mut Needed<'_>,
    ) -> Result<(), Failure> {
        self.server.keys.narrow(needed.keys());
        for key in needed.keys() {
            if let Some(row) = change.get(&rows::key(key))? {
                rows::load(&mut self.server.keys, key, row).map_err(|_| garbled(key))?;
            }
        }
        for (channel, listeners) in &mut needed.channels {
            *listeners = far_listeners(change, channel, self.own_session())?;
        }
        self.server.set_far(needed.counts());
        self.server.begin(micros);
        Ok(())
    }

    /// Frees the entries of dead processes with the same calls with which these would have given them up: the calls remove and
    /// publish the same. Returns what they published.
    fn free(&mut self, dead: &[Dead]) -> Vec<Message> {
        for dead in dead {
            // An entry that it refuses is no lock of that kind, and stays as it is: the call itself will fail for it.
            let _ = self.interpreter.run(&mut self.server, &dead.freeing);
        }
        self.server.take_outbox()
    }

    /// Adds each message for each of its listeners to the mail.
    fn address_mail(&self, needed: &Needed<'_>, ran: &Ran, mail: &mut Mail) {
        for message in &ran.of_dead {
            // Listeners of this process get it by a datagram too, and not from the thread that makes this call: that thread's
            // caller did not free anything, and may have a mutex locked that a listener needs.
            let ours = self
                .own_session()
                .filter(|_| self.server.has_listeners(message));
            let datagram = ours.map(|own| (own.to_owned(), Datagram::of(message)));
            mail.far.extend(datagram);
        }
        for message in &ran.own {
            mail.near.extend(self.server.mail_of(message));
        }
        for message in ran.of_dead.iter().chain(&ran.own) {
            let listening = needed.listeners(&message.channel);
            let datagrams = listening.map(|(session, _)| (session.clone(), Datagram::of(message)));
            mail.far.extend(datagrams);
        }
    }

    /// Notes the living holders to wait for, but only where a listener of this process would be woken by their end.
    fn note_found(&self, found: FoundEntries, effects: &mut Effects) {
        let channels = &self.server.channels;
        let waited_for =
            |(channel, _): &(Arc<str>, Arc<str>)| channels.count(channel.as_bytes()) > 0;
        effects.in_the_way = found.alive.into_iter().filter(waited_for).collect();
        let freed = found.dead.into_iter();
        effects.freed = freed.map(|dead| (dead.lock, dead.entry)).collect();
    }

    /// A call after the store was removed or replaced: it finds no keys, and cannot write.
    fn call_in_vain(&mut self, micros: i64, call: &Call) -> Result<Value, Failure> {
        let keys = call.keys.iter().map(|key| key.as_bytes());
        self.server.keys.narrow(keys);
        self.server.set_far(Vec::new());
        self.server.begin(micros);
        let reply = self.interpreter.run(&mut self.server, call);
        self.server.take_outbox();
        if self.server.keys.touched().any(|(_, now)| now.is_some()) {
            return Err(self.removed());
        }
        reply
    }
}

impl<'a> Needed<'a> {
    /// What a call is known to need. Listeners are looked for only under keys that look like a channel: a call that renews a
    /// hundred locks publishes nothing. Listeners of other channels that it publishes on are counted for the next run.
    pub(super) fn of(call: &'a Call) -> Self {
        let mut needed = Self {
            call,
            more_keys: Vec::new(),
            channels: Vec::new(),
        };
        needed.add_channels(call);
        needed
    }

    /// What another call needs, which runs before it.
    fn add_call(&mut self, call: &Call) {
        for key in &call.keys {
            if !self.keys().any(|known| known == key.as_bytes()) {
                self.more_keys.push(key.as_bytes().to_vec());
            }
        }
        self.add_channels(call);
    }

    fn add_channels(&mut self, call: &Call) {
        for key in call.keys.iter().filter(|key| looks_like_channel(key)) {
            if !self.channels.iter().any(|(of, _)| of == key.as_bytes()) {
                self.channels.push((key.as_bytes().to_vec(), Vec::new()));
            }
        }
    }

    /// Adds what a run asked for and was not loaded; returns whether there was something.
    fn add_missing(&mut self, server: &Server) -> bool {
        let before = (self.more_keys.len(), self.channels.len());
        self.more_keys
            .extend(server.keys.missing().map(<[u8]>::to_vec));
        let channels = server.missing_channels().iter();
        self.channels
            .extend(channels.map(|channel| (channel.clone(), Vec::new())));
        before != (self.more_keys.len(), self.channels.len())
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let named = self.call.keys.iter().map(|key| key.as_bytes());
        named.chain(self.more_keys.iter().map(Vec::as_slice))
    }

    fn counts(&self) -> Vec<(Vec<u8>, usize)> {
        let count = |listeners: &[(String, usize)]| listeners.iter().map(|(_, count)| count).sum();
        let channels = self.channels.iter();
        channels
            .map(|(channel, listeners)| (channel.clone(), count(listeners)))
            .collect()
    }

    /// The sessions of other processes that listen to a channel.
    fn listeners(&self, channel: &[u8]) -> impl Iterator<Item = &(String, usize)> {
        let channels = self.channels.iter();
        let those = channels.filter(move |(of, _)| of == channel);
        those.flat_map(|(_, listeners)| listeners)
    }
}

/// Writes what the call has changed; returns whether that is more data than before.
fn write_back(server: &Server, change: &mut Change) -> Result<bool, Failure> {
    let (mut before, mut after) = (0, 0);
    for (key, standing) in server.keys.touched() {
        let row = rows::key(key);
        let old = change.get(&row)?;
        let new = standing.map(|(data, deadline)| rows::write_value(data, deadline));
        if old == new.as_deref() {
            continue;
        }
        before += old.map_or(0, <[u8]>::len);
        after += new.as_ref().map_or(0, Vec::len);
        let old_deadline = match old {
            Some(old) => rows::read_deadline(old).map_err(|_| garbled(key))?,
            None => None,
        };
        let new_deadline = standing.and_then(|(_, deadline)| deadline);
        if old_deadline != new_deadline {
            if let Some(deadline) = old_deadline {
                change.delete(&rows::deadline(deadline, &row))?;
            }
            if let Some(deadline) = new_deadline {
                change.put(&rows::deadline(deadline, &row), &[])?;
            }
        }
        match new {
            Some(new) => change.put(&row, &new)?,
            None => change.delete(&row)?,
        }
    }
    Ok(after > before)
}

fn garbled(key: &[u8]) -> Failure {
    let key = String::from_utf8_lossy(key);
    refused(
        "CORRUPT",
        format!(
            "the store's entry {key:?} makes no sense: end the processes that use the store and remove its directory"
        ),
    )
}

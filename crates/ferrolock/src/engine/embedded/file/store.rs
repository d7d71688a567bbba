//! What is done in one turn: a call, a subscription, the beginning and the end of a session.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::super::channels::ListenerId;
use super::super::keyspace::{Data, Hash};
use super::super::lua::Interpreter;
use super::super::server::{Message, Server};
use super::expiry::{make_room, purge};
use super::folder::Folder;
use super::leaving::Loser;
use super::map::{Change, Map, full};
use super::refused;
use super::rows;
use super::session::{Life, Others, Session, far_ears, remove_ears};
use super::wakes::{Letter, Mail, Socket};
use crate::engine::{Ear, Failure};
use crate::protocol::lock::{self, LockKeys, Standing};
use crate::protocol::renewal;
use crate::protocol::script::{Call, Value};

/// The state of a store in this process; used by whoever has the turn.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) folder: Folder,
    map: Map,
    /// Holds the keys of one call at a time; its channels are those of this process.
    server: Server,
    interpreter: Interpreter,
    others: Others,
    session: Option<Open>,
}

/// The session of this process, while somebody uses the store.
#[derive(Debug)]
struct Open {
    session: Session,
    /// By their numbers: one that enters or leaves twice is still one.
    engines: BTreeMap<u64, Arc<Loser>>,
    socket: Option<Socket>,
}

/// What a call leaves to be done when the turn is over.
#[derive(Default)]
pub(super) struct Aftermath {
    pub(super) mail: Mail,
    /// Sessions of others that stand in the way of somebody who listens here: the channel, and the session.
    pub(super) in_the_way: Option<(Vec<u8>, String)>,
    /// A lock whose holder's process had ended, and the holder.
    pub(super) freed: Option<(Arc<str>, Arc<str>)>,
    /// Whether it is written down to which process the client belongs.
    pub(super) knows_client: bool,
}

impl Store {
    pub(super) fn new(folder: Folder, map: Map, interpreter: Interpreter) -> Self {
        Self {
            others: Others::new(folder.sessions(), folder.device()),
            folder,
            map,
            server: Server::seeded(fastrand::u64(..)),
            interpreter,
            session: None,
        }
    }

    /// One engine more uses the store; the first begins the session.
    pub(super) fn attach(&mut self, engine: u64, loser: Arc<Loser>) -> Result<(), Failure> {
        // Whoever comes now would be alone in what is left of it.
        self.look();
        self.check_in_place()?;
        if let Some(open) = &mut self.session {
            open.engines.insert(engine, loser);
            return Ok(());
        }
        let session = Session::begin(&self.folder.sessions())?;
        let now = self.folder.header.micros() / 1000;
        let registered = self.map.begin().and_then(|mut change| {
            session.register(&mut change)?;
            let dead = self.others.sweep(&mut change, &session.name, now)?;
            change.commit()?;
            Ok(dead)
        });
        match registered {
            Ok(dead) => dead.iter().for_each(|dead| self.others.forget(dead)),
            Err(failure) => {
                session.end();
                return Err(failure);
            }
        }
        self.session = Some(Open {
            session,
            engines: BTreeMap::from([(engine, loser)]),
            socket: None,
        });
        Ok(())
    }

    /// One engine less: its client is not asked for any more, and the last one ends the session.
    pub(super) fn detach(&mut self, engine: u64, client: Option<&str>) {
        self.server.channels.remove_engine(engine);
        let Some(open) = &mut self.session else {
            return;
        };
        open.engines.remove(&engine);
        let is_last = open.engines.is_empty();
        let ended = self.map.begin().and_then(|mut change| {
            if let Some(client) = client {
                change.delete(&rows::client(client))?;
            }
            if is_last {
                open.session.unregister(&mut change)?;
                remove_ears(&mut change, std::slice::from_ref(&open.session.name))?;
            }
            change.commit()
        });
        // If it could not be written, others will find the session dead.
        if is_last
            && ended.is_ok()
            && let Some(open) = self.session.take()
        {
            open.end();
        }
    }

    /// Whoever may hold something here.
    pub(super) fn losers(&self) -> Vec<Arc<Loser>> {
        let open = self.session.iter();
        open.flat_map(|open| open.engines.values().cloned())
            .collect()
    }

    /// Lets others begin the store anew of which this process has noticed that a part is missing. A child that was given the
    /// session's file keeps them out until it ends too: the file stays where it is, for them to see.
    pub(super) fn leave(&mut self) {
        if let Some(open) = self.session.take() {
            open.hears_no_more();
        }
        self.folder.leave();
    }

    /// The file that tells others that this process lives.
    pub(super) fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        let file = self.session.as_ref()?.session.file.try_clone();
        file.ok().map(Into::into)
    }

    /// Runs a call of that client, who asked for the store by that path.
    pub(super) fn call(
        &mut self,
        asked: Option<&Path>,
        client: Option<&str>,
        call: &Call,
    ) -> (Result<Value, Failure>, Aftermath) {
        let micros = self.folder.header.micros();
        if !self.folder.is_in_place(asked, micros) {
            return (self.call_in_vain(micros, call), Aftermath::default());
        }
        self.call_at(micros, client, call)
    }

    pub(super) fn call_at(
        &mut self,
        micros: i64,
        client: Option<&str>,
        call: &Call,
    ) -> (Result<Value, Failure>, Aftermath) {
        let mut after = Aftermath::default();
        let reply = self.call_through(micros, client, call, &mut after);
        if reply.is_err() {
            self.server.take_outbox();
        }
        (reply, after)
    }

    fn call_through(
        &mut self,
        micros: i64,
        client: Option<&str>,
        call: &Call,
        after: &mut Aftermath,
    ) -> Result<Value, Failure> {
        // At worst there is none, and what needs some is refused.
        let _ = make_room(&mut self.map, micros / 1000);
        let mut change = self.map.begin()?;
        if let (Some(client), Some(open)) = (client, &self.session) {
            change.put(&rows::client(client), open.session.name.as_bytes())?;
            after.knows_client = true;
        }
        self.load(&change, micros, call)?;
        let dead = self.bury_holder(&mut change, call, after)?;
        let reply = self.interpreter.run(&mut self.server, call);
        if self.server.keys.has_strayed() {
            let text = format!(
                "the script {} uses a key that it does not name",
                call.script.name
            );
            return Err(refused("ERR", text));
        }
        let now = self.server.now();
        if let (Ok(reply), Some((field, stay_ms))) = (&reply, lock::stays(call))
            && matches!(lock::read_standing(reply.clone()), Ok(Standing::Ours))
        {
            let row = rows::staying(field.as_bytes());
            change.put(&rows::deadline(now.saturating_add(stay_ms), &row), &[])?;
            change.put(&row, &[])?;
        }
        let grows = write_back(&self.server, &mut change)?;
        purge(&mut change, now)?;
        // A script that was refused half-way has written what it had written, as on a server.
        for message in &self.server.take_outbox() {
            after.mail.near.extend(self.server.mail_of(message));
            self.write_to_others(&change, message, after)?;
        }
        let committed = match grows && self.map.is_full() {
            true => Err(full()),
            false => change.commit(),
        };
        if let Err(failure) = committed {
            *after = Aftermath::default();
            return Err(failure);
        }
        if let Some(dead) = dead {
            self.others.forget(&dead);
        }
        reply
    }

    /// Puts the keys of a call where commands find them, and counts who listens.
    fn load(&mut self, change: &Change, micros: i64, call: &Call) -> Result<(), Failure> {
        let keys = || call.keys.iter().map(|key| key.as_bytes());
        self.server.keys.narrow(keys());
        for key in keys() {
            if let Some(row) = change.get(&rows::key(key))? {
                rows::load(&mut self.server.keys, key, row).map_err(|_| garbled(key))?;
            }
        }
        let mut far = Vec::new();
        // A renewal sends no message, and has keys by the hundred.
        let channels = (!renewal::is_renewal(call)).then(keys);
        for key in channels.into_iter().flatten() {
            let ears = far_ears(change, key, self.own_session())?;
            far.push((key.to_vec(), ears.iter().map(|(_, count)| count).sum()));
        }
        self.server.set_far(far);
        self.server.begin(micros);
        Ok(())
    }

    /// Gives back what a process held that is not there any more; its session, if that was found dead just now.
    fn bury_holder(
        &mut self,
        change: &mut Change,
        call: &Call,
        after: &mut Aftermath,
    ) -> Result<Option<String>, Failure> {
        let Some(name) = lock::name_of(call) else {
            return Ok(None);
        };
        let Some(field) = self.only_holder(name) else {
            return Ok(None);
        };
        let client = lock::client_of(&field).unwrap_or_default();
        let session = match change.get(&rows::client(client))? {
            Some(session) if Some(session) != self.own_session().map(str::as_bytes) => session,
            _ => return Ok(None),
        };
        let session = String::from_utf8_lossy(session).into_owned();
        let keys = LockKeys::new(name.clone());
        match self.others.life(change, &session)? {
            Life::Unknown => return Ok(None),
            Life::Alive => {
                if self.server.channels.count(keys.channel.as_bytes()) > 0 {
                    after.in_the_way = Some((keys.channel.as_bytes().to_vec(), session));
                }
                return Ok(None);
            }
            Life::Dead => {}
        }
        if change.get(&rows::staying(field.as_bytes()))?.is_some() {
            return Ok(None);
        }
        let micros = self.server.micros();
        let release = lock::release_of_dead(&keys, field.clone());
        let wanted: Vec<_> = call.keys.iter().chain(&release.keys).cloned().collect();
        // As the release, which sends a message, whatever the call is.
        let both = Call {
            keys: wanted.into(),
            ..release.clone()
        };
        self.load(change, micros, &both)?;
        self.interpreter.run(&mut self.server, &release)?;
        for message in &self.server.take_outbox() {
            // Our own ears hear of it by post too: whoever makes this call may hold what they need.
            let ours = self.own_session().filter(|_| self.server.has_ears(message));
            let letter = ours.map(|own| (own.to_owned(), Letter::of(message)));
            after.mail.far.extend(letter);
            self.write_to_others(change, message, after)?;
        }
        let now = self.server.now();
        self.others.bury(change, &session, now)?;
        after.freed = Some((keys.lock.clone(), field));
        Ok(Some(session))
    }

    fn write_to_others(
        &self,
        change: &Change,
        message: &Message,
        after: &mut Aftermath,
    ) -> Result<(), Failure> {
        for (session, _) in far_ears(change, &message.channel, self.own_session())? {
            after.mail.far.push((session, Letter::of(message)));
        }
        Ok(())
    }

    /// The field of whoever holds a lock, if there is one holder and nothing else.
    fn only_holder(&mut self, lock: &str) -> Option<Arc<str>> {
        let now = self.server.now();
        let hash = match self.server.keys.get(lock.as_bytes(), now)? {
            Data::Hash(hash) if hash.len() == 1 => hash,
            _ => return None,
        };
        let (field, _) = Hash::iter(hash).next()?;
        Some(std::str::from_utf8(field).ok()?.into())
    }

    fn own_session(&self) -> Option<&str> {
        self.session.as_ref().map(|open| open.session.name.as_str())
    }

    /// A call after the store was removed or replaced: there is nothing, and nothing can be written.
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

    /// Looks for all parts of the store.
    pub(super) fn look(&mut self) {
        self.folder.look(self.folder.header.micros());
    }

    fn check_in_place(&mut self) -> Result<(), Failure> {
        let micros = self.folder.header.micros();
        if self.folder.is_in_place(None, micros) {
            return Ok(());
        }
        Err(self.removed())
    }

    fn removed(&self) -> Failure {
        refused(
            "REMOVED",
            format!(
                "the store {} was removed or replaced while it was open: connect again",
                self.folder.path().display()
            ),
        )
    }

    /// Adds an ear, and lets other processes know that somebody here listens.
    pub(super) fn listen(
        &mut self,
        channel: &[u8],
        engine: u64,
        ear: Arc<dyn Ear>,
        bind: impl FnOnce(&str) -> std::io::Result<Socket>,
    ) -> Result<ListenerId, Failure> {
        self.check_in_place()?;
        let Some(open) = &mut self.session else {
            return Err(Failure::Closed(crate::engine::SHUT_DOWN.to_owned()));
        };
        if open.socket.is_none() {
            let bound = bind(&open.session.name);
            let told = |error| super::directory::io_trouble("the store's sockets", &error);
            open.socket = Some(bound.map_err(told)?);
        }
        let listener = self.server.channels.add(channel, engine, ear);
        if let Err(failure) = self.tell_ears(channel) {
            self.server.channels.remove(channel, listener);
            return Err(failure);
        }
        Ok(listener)
    }

    /// Takes an ear away; how many are left on its channel.
    pub(super) fn listen_no_more(&mut self, channel: &[u8], listener: ListenerId) -> usize {
        self.server.channels.remove(channel, listener);
        // At worst somebody sends us what nobody hears.
        let _ = self.tell_ears(channel);
        self.server.channels.count(channel)
    }

    /// The ears of a channel here.
    pub(super) fn ears(&self, channel: &[u8]) -> impl Iterator<Item = Arc<dyn Ear>> + '_ {
        self.server.channels.ears(channel)
    }

    /// Writes down how many listen to a channel here.
    fn tell_ears(&mut self, channel: &[u8]) -> Result<(), Failure> {
        let Some(open) = &self.session else {
            return Ok(());
        };
        let row = rows::listener(channel, &open.session.name);
        let mut change = self.map.begin()?;
        match u32::try_from(self.server.channels.count(channel)).unwrap_or(u32::MAX) {
            0 => change.delete(&row)?,
            count => change.put(&row, &count.to_be_bytes())?,
        }
        change.commit()
    }

    /// Those sessions hear nothing any more.
    pub(super) fn are_deaf(&mut self, sessions: &[String]) -> Result<(), Failure> {
        let mut change = self.map.begin()?;
        remove_ears(&mut change, sessions)?;
        change.commit()
    }

    /// The file of a session, for somebody who waits for its end.
    pub(super) fn to_wait_for(&self, session: &str) -> Option<std::fs::File> {
        self.others.to_wait_for(session)
    }
}

impl Open {
    fn end(self) {
        self.hears_no_more();
        self.session.end();
    }

    fn hears_no_more(&self) {
        if let Some(socket) = &self.socket {
            // Ends the thread that reads it.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Writes what the call has changed; whether there is more now than before.
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

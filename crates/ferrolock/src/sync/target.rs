//! What a handle leads to: one name of one client, or several locks.

use std::future::Future;
use std::sync::Arc;

use crate::coordination::holding::bundle::Enough;
use crate::coordination::waiting::{Patience, Request, acquire};
use crate::coordination::{Alive, Core, Told};
use crate::engine::Lane;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::kind::Lockable;
use crate::options::{LockOptions, check_wait};
use crate::owner::{Owner, OwnerId};
use crate::protocol::call::{Call, Value};
use crate::protocol::lock::write_details;
use crate::protocol::scheme::Scheme;
use crate::sync::multi_lock::SeveralLocks;
use crate::sync::quorum_lock::NodeLocks;

/// What a handle leads to.
#[derive(Clone)]
pub(super) enum Target {
    One(OneName),
    Multi(Arc<SeveralLocks>),
    Quorum(Arc<NodeLocks>),
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Target::One(one) => one.name(),
            Target::Multi(several) => &several.name,
            Target::Quorum(nodes) => &nodes.name,
        }
    }

    /// What the client has logged already; of several, the first one's.
    pub(super) fn told(&self) -> Option<&Told> {
        match self {
            Target::One(one) => Some(&one.alive.core.told),
            Target::Multi(several) => several.locks.first()?.target.told(),
            Target::Quorum(nodes) => Some(&nodes.nodes.first()?.alive.core.told),
        }
    }

    /// The name on each of its servers, and how many of them must answer. Kinds that have no name are not asked about it.
    pub(super) fn names(&self) -> Result<(Vec<OneName>, Enough)> {
        match self {
            Target::One(one) => Ok((vec![one.clone()], Enough::All(1))),
            Target::Multi(_) => Err(Error::invalid("several locks have no one name")),
            Target::Quorum(nodes) => Ok((nodes.checked()?.to_vec(), nodes.enough())),
        }
    }

    /// The client whose clock counts; of several, the first one's.
    pub(super) fn core(&self) -> Option<&Arc<Core>> {
        match self {
            Target::One(one) => Some(&one.alive.core),
            Target::Multi(several) => several.locks.first()?.target.core(),
            Target::Quorum(nodes) => Some(&nodes.nodes.first()?.alive.core),
        }
    }
}

/// One name of one client.
#[derive(Clone, Debug)]
pub(super) struct OneName {
    pub(super) alive: Arc<Alive>,
    pub(super) scheme: Result<Arc<dyn Scheme>>,
}

impl OneName {
    pub(super) async fn acquire<K: Lockable>(
        &self,
        options: &LockOptions,
        patience: Patience,
    ) -> Result<Option<Guard<K>>> {
        let request = self.request(options, patience)?;
        let core = &self.alive.core;
        let hold = acquire(core, request, options.cancelled_by.clone()).await?;
        Ok(hold.map(|hold| Guard::new(hold, self.alive.clone())))
    }

    /// The call that wants a hold.
    pub(super) fn request(
        &self,
        options: &LockOptions,
        patience: Patience,
    ) -> Result<Arc<Request>> {
        let core = &self.alive.core;
        let scheme = self.scheme.clone()?;
        let terms = core
            .settings
            .terms(options)
            .map_err(|error| error.of(scheme.name()))?;
        if let Some(wait) = patience.wait() {
            check_wait("a wait", wait).map_err(|error| error.of(scheme.name()))?;
        }
        Ok(Request::new(
            scheme,
            options.whose(),
            terms,
            self.who(options),
            options.reentry,
            patience,
            core.now(),
        ))
    }

    /// Details for people: only with a label, or a name on the client.
    fn who(&self, options: &LockOptions) -> Option<Arc<str>> {
        let core = &self.alive.core;
        let label = options.label.as_ref().or(core.settings.name.as_ref())?;
        Some(write_details(std::process::id(), &core.host, label))
    }

    /// The address, and for a space that no other client can open, its client.
    pub(super) fn space(&self) -> (&str, &str) {
        let core = &self.alive.core;
        match core.engine.address() {
            address @ "memory:" => (address, &core.id),
            address => (address, ""),
        }
    }

    /// The field under which that owner holds it.
    pub(super) fn owner_id(&self, owner: &Owner) -> Option<OwnerId> {
        let scheme = self.scheme.as_ref().ok()?;
        self.alive.core.owner_id(scheme.subject(), owner)
    }

    pub(super) fn name(&self) -> &str {
        let scheme = self.scheme.as_ref();
        scheme.map(|scheme| &**scheme.name()).unwrap_or_default()
    }

    pub(super) fn ask(
        &self,
        call: fn(&dyn Scheme) -> Call,
    ) -> impl Future<Output = Result<(Arc<dyn Scheme>, Value)>> + Send + use<> {
        let (alive, scheme) = (self.alive.clone(), self.scheme.clone());
        async move {
            let scheme = scheme?;
            alive
                .core
                .check_open()
                .map_err(|error| error.of(scheme.name()))?;
            let reply = alive
                .core
                .ask(Lane::Commands, Some(&scheme), call(&*scheme))
                .await;
            let reply = reply.map_err(|error| error.of(scheme.name()))?;
            Ok((scheme, reply))
        }
    }
}

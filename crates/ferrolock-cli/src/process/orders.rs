//! The orders that `ferrolock` sends to the shim: one line each, through a pipe.

use std::fmt;

use rustix::process::Pid;

use super::group::Group;
use crate::clock::Moment;

/// One line to the shim. A closed pipe is an order too: `ferrolock` is gone, kill the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The group to kill.
    Group(Group),
    /// When to kill it, if no other order comes until then.
    Deadline(Moment),
    /// Kill it only when `ferrolock` is gone.
    NoDeadline,
    /// The command has ended: do not kill the group.
    Done,
}

impl Order {
    /// `None`: not a line of ours.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None if line == "done" => Some(Self::Done),
            Some(("group", id)) => {
                let id = id.parse().ok().filter(|id| *id > 1)?;
                Some(Self::Group(Group::of(Pid::from_raw(id)?)))
            }
            Some(("deadline", "none")) => Some(Self::NoDeadline),
            Some(("deadline", nanos)) => {
                Some(Self::Deadline(Moment::from_nanos(nanos.parse().ok()?)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group {}", group.id().as_raw_pid()),
            Self::Deadline(moment) => write!(f, "deadline {}", moment.since_zero().as_nanos()),
            Self::NoDeadline => f.write_str("deadline none"),
            Self::Done => f.write_str("done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_is_written() {
        let orders = [
            Order::Group(Group::of(Pid::from_raw(4242).unwrap())),
            Order::Deadline(Moment::now()),
            Order::NoDeadline,
            Order::Done,
        ];
        for order in orders {
            assert_eq!(Order::parse(&order.to_string()), Some(order));
        }
    }

    #[test]
    fn lines_without_a_valid_group_are_no_orders() {
        for line in [
            "group 1", "group 0", "group -5", "group x", "group", "", "kill 7",
        ] {
            assert_eq!(Order::parse(line), None, "{line}");
        }
    }
}

//! What is to fail, when and how: a value, written by hand or parsed from text.

use crate::ErrorKind;
use std::str::FromStr;
use std::time::Duration;

/// Which calls are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Calls of `open`.
    Open,
    /// Calls of `delete`.
    Delete,
    /// Batches that read.
    Read,
    /// Batches that write.
    Write,
    /// Calls of `len`.
    Len,
    /// Calls of `set_len`.
    SetLen,
    /// Calls of `preallocate`.
    Preallocate,
    /// Calls of `sync`.
    Sync,
    /// Calls of `refresh`.
    Refresh,
    /// Calls of `lock`.
    Lock,
    /// Calls of `close`. The file is closed even if the call fails, as the system does it.
    Close,
    /// All of these, counted together.
    Any,
}

impl Target {
    pub(super) const NAMES: [(&'static str, Self); 12] = [
        ("open", Self::Open),
        ("delete", Self::Delete),
        ("read", Self::Read),
        ("write", Self::Write),
        ("len", Self::Len),
        ("set_len", Self::SetLen),
        ("preallocate", Self::Preallocate),
        ("sync", Self::Sync),
        ("refresh", Self::Refresh),
        ("lock", Self::Lock),
        ("close", Self::Close),
        ("any", Self::Any),
    ];

    const fn transfers(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Any)
    }
}

/// Which calls of a target, counted from zero over all files of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// That one.
    Nth(u64),
    /// That one and all after it.
    From(u64),
}

impl When {
    pub(super) const fn matches(self, index: u64) -> bool {
        match self {
            Self::Nth(nth) => index == nth,
            Self::From(first) => index >= first,
        }
    }
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It fails; a batch moves `after_bytes` bytes before that, other calls do nothing.
    Fail {
        /// The error.
        kind: ErrorKind,
        /// Bytes that a batch moves first.
        after_bytes: u64,
    },
    /// A batch moves at most this many bytes. A read ends there as if the file did; a write fails with [`ErrorKind::Io`].
    Short {
        /// Bytes that are moved.
        bytes: u64,
    },
    /// A batch goes to the driver below in pieces of this many bytes (at least 1), one after the other. Its result is what it would have
    /// been, but others can come between the pieces.
    Pieces {
        /// Bytes of a piece.
        bytes: u64,
    },
    /// It begins that much later.
    Delay(Duration),
    /// It panics, as a driver with a bug would.
    Panic,
}

/// One entry of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fault {
    pub(super) target: Target,
    pub(super) when: When,
    pub(super) effect: Effect,
}

/// A list of faults. Where several meet one call all of them work; of several failures the first in the list is returned.
///
/// As text, a plan is a list of `TARGET@WHEN:EFFECT` with `;` between them:
/// * TARGET: `open delete read write len set_len preallocate sync refresh lock close`, or `any` for all of
///   them counted together;
/// * WHEN: `3` for the fourth call, `3+` for it and all that follow, `*` for all;
/// * EFFECT: an error, `notfound exists permission readonly nospace quota toolarge badname busy unsupported io`, and `=BYTES` after it
///   if that many bytes of a batch are moved first; `short=BYTES`; `pieces=BYTES`; `delay=TIME` with TIME in `us`, `ms` or `s`;
///   `panic`.
///
/// ```
/// use capulet_drivers::{ErrorKind, wrappers::{Effect, FaultPlan, Target, When}};
///
/// let plan: FaultPlan = "write@3:nospace=512; read@*:pieces=1".parse()?;
/// let same = FaultPlan::none()
///     .with(Target::Write, When::Nth(3), Effect::Fail { kind: ErrorKind::NoSpace, after_bytes: 512 })
///     .with(Target::Read, When::From(0), Effect::Pieces { bytes: 1 });
/// assert_eq!(plan, same);
/// # Ok::<(), capulet_drivers::wrappers::FaultPlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultPlan {
    pub(super) faults: Vec<Fault>,
}

/// Why a text is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultPlanError {
    /// Not of the form `TARGET@WHEN:EFFECT`.
    #[error("`{0}` is not of the form TARGET@WHEN:EFFECT")]
    Form(String),
    /// No such target.
    #[error(
        "`{0}` is none of open, delete, read, write, len, set_len, preallocate, sync, refresh, lock, close, any"
    )]
    Target(String),
    /// Not a call number.
    #[error("`{0}` is not a call number such as 3, 3+ or *")]
    When(String),
    /// No such effect.
    #[error("`{0}` is neither an error kind nor short=BYTES, pieces=BYTES, delay=TIME or panic")]
    Effect(String),
    /// Not a number of bytes, or one of which nothing can come.
    #[error("`{0}` is not a number of bytes that this effect can have")]
    Bytes(String),
    /// Not a time.
    #[error("`{0}` is not a time such as 50ms, 10us or 1s")]
    Time(String),
    /// An effect on bytes for a call that moves none.
    #[error("`{0}` moves no bytes, so that none can be counted")]
    MovesNothing(String),
}

impl FaultPlan {
    /// Nothing fails.
    pub fn none() -> Self {
        Self::default()
    }

    /// This plan and one fault more.
    pub fn with(mut self, target: Target, when: When, effect: Effect) -> Self {
        self.faults.push(Fault { target, when, effect });
        self
    }

    /// A plan from its text, as described at the type. Empty entries are passed over.
    ///
    /// # Errors
    /// [`FaultPlanError`], with the part of the text that is wrong.
    pub fn parse(text: &str) -> Result<Self, FaultPlanError> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        Ok(Self { faults: entries.map(parse_fault).collect::<Result<_, _>>()? })
    }

    /// Whether nothing fails.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, FaultPlanError> {
        Self::parse(text)
    }
}

fn parse_fault(entry: &str) -> Result<Fault, FaultPlanError> {
    let form = || FaultPlanError::Form(entry.to_owned());
    let (target, rest) = entry.split_once('@').ok_or_else(form)?;
    let (when, effect) = rest.split_once(':').ok_or_else(form)?;
    let known = Target::NAMES.iter().find(|(name, _)| *name == target);
    let (_, known) = known.ok_or_else(|| FaultPlanError::Target(target.to_owned()))?;
    let fault = Fault { target: *known, when: parse_when(when)?, effect: parse_effect(effect)? };
    let counts_bytes = match fault.effect {
        Effect::Fail { after_bytes, .. } => after_bytes > 0,
        Effect::Short { .. } | Effect::Pieces { .. } => true,
        Effect::Delay(_) | Effect::Panic => false,
    };
    if counts_bytes && !fault.target.transfers() {
        return Err(FaultPlanError::MovesNothing(target.to_owned()));
    }
    Ok(fault)
}

fn parse_when(text: &str) -> Result<When, FaultPlanError> {
    let number = |digits: &str| digits.parse().map_err(|_| FaultPlanError::When(text.to_owned()));
    match text.strip_suffix('+') {
        _ if text == "*" => Ok(When::From(0)),
        Some(digits) => number(digits).map(When::From),
        None => number(text).map(When::Nth),
    }
}

fn parse_effect(text: &str) -> Result<Effect, FaultPlanError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    match (name, value) {
        ("short", Some(value)) => Ok(Effect::Short { bytes: parse_bytes(value)? }),
        ("pieces", Some(value)) => match parse_bytes(value)? {
            0 => Err(FaultPlanError::Bytes(value.to_owned())),
            bytes => Ok(Effect::Pieces { bytes }),
        },
        ("delay", Some(value)) => parse_time(value).map(Effect::Delay),
        ("panic", None) => Ok(Effect::Panic),
        _ => {
            let kind = parse_kind(name).ok_or_else(|| FaultPlanError::Effect(text.to_owned()))?;
            Ok(Effect::Fail { kind, after_bytes: value.map_or(Ok(0), parse_bytes)? })
        }
    }
}

fn parse_bytes(text: &str) -> Result<u64, FaultPlanError> {
    text.parse().map_err(|_| FaultPlanError::Bytes(text.to_owned()))
}

fn parse_time(text: &str) -> Result<Duration, FaultPlanError> {
    let digits_end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    // 32 bits keep every sum of pauses far from the end of the clock.
    let wrong = || FaultPlanError::Time(text.to_owned());
    let number = u64::from(digits.parse::<u32>().map_err(|_| wrong())?);
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(wrong()),
    }
}

fn parse_kind(name: &str) -> Option<ErrorKind> {
    Some(match name {
        "notfound" => ErrorKind::NotFound,
        "exists" => ErrorKind::Exists,
        "permission" => ErrorKind::Permission,
        "readonly" => ErrorKind::ReadOnly,
        "nospace" => ErrorKind::NoSpace,
        "quota" => ErrorKind::Quota,
        "toolarge" => ErrorKind::TooLarge,
        "badname" => ErrorKind::BadName,
        "busy" => ErrorKind::Busy,
        "unsupported" => ErrorKind::Unsupported,
        "io" => ErrorKind::Io,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_the_value_says() {
        let fail = |kind| Effect::Fail { kind, after_bytes: 0 };
        let expected = FaultPlan::none()
            .with(Target::Open, When::Nth(0), fail(ErrorKind::Permission))
            .with(Target::Any, When::From(5), fail(ErrorKind::Io))
            .with(Target::Read, When::From(0), Effect::Short { bytes: 7 })
            .with(Target::Sync, When::Nth(1), Effect::Delay(Duration::from_millis(50)))
            .with(Target::Len, When::Nth(2), Effect::Panic);
        let text = "open@0:permission;any@5+:io; read@*:short=7;sync@1:delay=50ms;len@2:panic;";
        assert_eq!(FaultPlan::parse(text), Ok(expected));
        assert!(FaultPlan::parse(" ; ").unwrap().is_empty());
    }

    #[test]
    fn each_target_and_each_kind_has_a_name() {
        for (name, target) in Target::NAMES {
            let plan = FaultPlan::parse(&format!("{name}@0:busy")).unwrap();
            assert_eq!(plan.faults[0].target, target);
        }
        for kind in "notfound exists permission readonly nospace quota toolarge badname busy unsupported io"
            .split(' ')
        {
            assert_eq!(FaultPlan::parse(&format!("any@0:{kind}")).unwrap().faults.len(), 1, "{kind}");
        }
    }

    #[test]
    fn each_mistake_has_its_error() {
        let wrong = |text: &str| FaultPlan::parse(text).unwrap_err();
        let of = |text: &str| text.to_owned();
        assert_eq!(wrong("rank=1;write@0:io"), FaultPlanError::Form(of("rank=1")));
        assert_eq!(wrong("write@0"), FaultPlanError::Form(of("write@0")));
        assert_eq!(wrong("rite@0:io"), FaultPlanError::Target(of("rite")));
        assert_eq!(wrong("write@x:io"), FaultPlanError::When(of("x")));
        assert_eq!(wrong("write@-1:io"), FaultPlanError::When(of("-1")));
        assert_eq!(wrong("write@0:oops"), FaultPlanError::Effect(of("oops")));
        assert_eq!(wrong("write@0:short"), FaultPlanError::Effect(of("short")));
        assert_eq!(wrong("write@0:io=many"), FaultPlanError::Bytes(of("many")));
        assert_eq!(wrong("write@0:pieces=0"), FaultPlanError::Bytes(of("0")));
        assert_eq!(wrong("write@0:delay=5h"), FaultPlanError::Time(of("5h")));
        assert_eq!(wrong("write@0:delay=ms"), FaultPlanError::Time(of("ms")));
        assert_eq!(wrong("open@0:pieces=1"), FaultPlanError::MovesNothing(of("open")));
        assert_eq!(wrong("sync@0:io=5"), FaultPlanError::MovesNothing(of("sync")));
    }
}

//! The plan of injected faults, made by calls or parsed from text.

use crate::ErrorKind;
use std::time::Duration;

/// The kind of calls that a fault applies to.
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
    /// Calls of `try_lock`.
    Lock,
    /// Calls of `close`. The file is closed even if the call fails, like a close of the system.
    Close,
    /// Calls of all kinds, counted together.
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

/// The calls of a target that a fault applies to, counted from zero over all files of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// Only the call of this number.
    Nth(u64),
    /// The call of this number and all later calls.
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

/// The effect of a fault on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The call fails. A batch moves `after_bytes` bytes before the failure; other calls but `close` do
    /// nothing.
    Fail {
        /// The kind of the error.
        kind: ErrorKind,
        /// The bytes that a batch moves before the failure.
        after_bytes: u64,
    },
    /// A batch moves at most this many bytes. A read ends there like at the end of the file. A write
    /// fails with [`ErrorKind::Io`].
    Short {
        /// The bytes that are moved.
        bytes: u64,
    },
    /// A batch goes to the wrapped driver in pieces of this many bytes (at least 1), one after the other. The
    /// result is the same, but other accesses can come between the pieces.
    Pieces {
        /// The length of a piece in bytes.
        bytes: u64,
    },
    /// The call begins after this delay.
    Delay(Duration),
    /// The call panics, like a driver with a bug.
    Panic,
}

/// One entry of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fault {
    pub(super) target: Target,
    pub(super) when: When,
    pub(super) effect: Effect,
}

/// A list of faults. If several faults apply to one call, delays add up, and of each other kind of effect the
/// first fault in the list counts.
///
/// As text, a plan is a list of `TARGET@WHEN:EFFECT` with `;` between the entries:
/// * TARGET: `open delete read write len set_len preallocate sync refresh lock close`, or `any` for calls of
///   all kinds, counted together.
/// * WHEN: `3` for the fourth call, `3+` for the fourth call and all later calls, `*` for all calls.
/// * EFFECT: one of the following.
///   * An error: `notfound exists permission readonly nospace quota toolarge badname busy unsupported io`.
///     `=BYTES` after it lets a batch move this many bytes before the error.
///   * `short=BYTES`, `pieces=BYTES`, `panic`.
///   * `delay=TIME` with TIME in `us`, `ms` or `s`.
///
/// ```
/// use capulet_drivers::{ErrorKind, wrappers::{Effect, FaultPlan, Target, When}};
///
/// let plan = FaultPlan::parse("write@3:nospace=512; read@*:pieces=1")?;
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

/// The reason why a text is not a plan, with the wrong part of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultPlanError {
    /// The entry does not have the form `TARGET@WHEN:EFFECT`.
    #[error("`{0}` is not of the form TARGET@WHEN:EFFECT")]
    Form(String),
    /// The target is unknown.
    #[error(
        "`{0}` is none of open, delete, read, write, len, set_len, preallocate, sync, refresh, lock, close, any"
    )]
    Target(String),
    /// The part WHEN is not a call number.
    #[error("`{0}` is not a call number such as 3, 3+ or *")]
    When(String),
    /// The effect is unknown.
    #[error("`{0}` is neither an error kind nor short=BYTES, pieces=BYTES, delay=TIME or panic")]
    Effect(String),
    /// The text is not a number of bytes, or is zero for `pieces`.
    #[error("`{0}` is not a number of bytes that this effect accepts")]
    Bytes(String),
    /// The text is not a time.
    #[error("`{0}` is not a time such as 50ms, 10us or 1s")]
    Time(String),
    /// The effect counts bytes, but the target moves none.
    #[error("`{0}` moves no bytes, so the effect cannot count bytes")]
    MovesNothing(String),
}

impl FaultPlan {
    /// A plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// This plan with one more fault at the end.
    pub fn with(mut self, target: Target, when: When, effect: Effect) -> Self {
        self.faults.push(Fault { target, when, effect });
        self
    }

    /// Parses a plan in the language that the type describes. Empty entries are ignored.
    ///
    /// # Errors
    /// [`FaultPlanError`], with the wrong part of the text.
    pub fn parse(text: &str) -> Result<Self, FaultPlanError> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        Ok(Self { faults: entries.map(parse_fault).collect::<Result<_, _>>()? })
    }

    /// Whether the plan has no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
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
    // The limit of 32 bits keeps the sum of delays from overflowing.
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
    fn parsed_plan_equals_the_plan_made_by_calls() {
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

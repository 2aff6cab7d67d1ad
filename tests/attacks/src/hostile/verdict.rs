//! What an attempt comes to.

use std::io;

pub(crate) enum Verdict {
    Through(String),
    Held(String),
}

/// An error: it could not even be tried.
pub(crate) type Attempt = fn(&[String]) -> Result<Verdict, String>;

/// A call that must not succeed.
pub(crate) fn must_fail<T>(result: Result<T, i32>) -> Result<Verdict, String> {
    Ok(match result {
        Ok(_) => Verdict::Through("it succeeded".into()),
        Err(errno) => Verdict::Held(shown(errno)),
    })
}

/// A call that must be refused in this way: anything else has come from the kernel's own code behind the door.
pub(crate) fn must_be_refused<T>(result: Result<T, i32>, refusals: &[i32]) -> Result<Verdict, String> {
    Ok(match result {
        Ok(_) => Verdict::Through("it succeeded".into()),
        Err(errno) if refusals.contains(&errno) => Verdict::Held(shown(errno)),
        Err(errno) => Verdict::Through(format!("the kernel itself answered: {}", shown(errno))),
    })
}

/// The same for what the standard library does.
pub(crate) fn must_not_work<T>(result: io::Result<T>) -> Result<Verdict, String> {
    Ok(match result {
        Ok(_) => Verdict::Through("it succeeded".into()),
        Err(error) => Verdict::Held(error.to_string()),
    })
}

pub(crate) fn through_if(through: bool, what: impl Into<String>) -> Result<Verdict, String> {
    let what = what.into();
    Ok(if through { Verdict::Through(what) } else { Verdict::Held(what) })
}

pub(crate) fn shown(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// A step on the way that has to work.
pub(crate) trait Step<T> {
    fn step(self, what: &str) -> Result<T, String>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}

impl<T> Step<T> for Result<T, i32> {
    fn step(self, what: &str) -> Result<T, String> {
        self.map_err(|errno| format!("{what}: {}", shown(errno)))
    }
}

/// What the suite tells every attempt.
pub(crate) fn told(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set"))
}

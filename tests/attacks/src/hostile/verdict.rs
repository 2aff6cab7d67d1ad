//! The verdict of an attempt.

use std::io;

pub(crate) enum Verdict {
    Through(String),
    Held(String),
}

/// An error means that the attempt could not be made.
pub(crate) type Attempt = fn(&[String]) -> Result<Verdict, String>;

/// A call that must not succeed.
pub(crate) fn must_fail<T>(result: Result<T, i32>) -> Result<Verdict, String> {
    Ok(match result {
        Ok(_) => Verdict::Through("it succeeded".into()),
        Err(errno) => Verdict::Held(errno_name(errno)),
    })
}

/// A call that must be refused with one of these errors: any other error comes from kernel code behind the filter.
pub(crate) fn must_be_refused<T>(result: Result<T, i32>, refusals: &[i32]) -> Result<Verdict, String> {
    Ok(match result {
        Ok(_) => Verdict::Through("it succeeded".into()),
        Err(errno) if refusals.contains(&errno) => Verdict::Held(errno_name(errno)),
        Err(errno) => Verdict::Through(format!("the kernel itself answered: {}", errno_name(errno))),
    })
}

/// The same for the standard library.
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

pub(crate) fn errno_name(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// A preparatory step that has to succeed.
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
        self.map_err(|errno| format!("{what}: {}", errno_name(errno)))
    }
}

/// An environment variable that the suite sets.
pub(crate) fn suite_variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set"))
}

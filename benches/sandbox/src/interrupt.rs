//! Ctrl-C ends a benchmark between two measurements, so that all it has made is taken away on the way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    pub(crate) fn listen(runtime: &tokio::runtime::Runtime) -> Result<Self> {
        let interrupt = Self { asked: Arc::default() };
        let asked = interrupt.asked.clone();
        let _inside = runtime.enter();
        let (mut interrupted, mut terminated) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        runtime.spawn(async move {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
            asked.store(true, Ordering::Relaxed);
        });
        Ok(interrupt)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.asked.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

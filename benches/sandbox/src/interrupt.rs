//! Ctrl-C ends a benchmark at once and in order, so that all it has made is taken away on the way out.

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub(crate) struct Interrupt {
    asked: watch::Receiver<bool>,
}

impl Interrupt {
    pub(crate) fn listen(runtime: &tokio::runtime::Runtime) -> Result<Self> {
        let (ask, asked) = watch::channel(false);
        let _inside = runtime.enter();
        let (mut interrupted, mut terminated) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        runtime.spawn(async move {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
            ask.send_replace(true);
            // The receiver sees it while a sender exists.
            ask.closed().await;
        });
        Ok(Self { asked })
    }

    /// For work that nothing can break into.
    pub(crate) fn check(&self) -> Result<()> {
        if *self.asked.borrow() {
            bail!("interrupted");
        }
        Ok(())
    }

    pub(crate) async fn wait(&self) {
        let mut asked = self.asked.clone();
        // It cannot be closed before it is asked.
        let _ = asked.wait_for(|asked| *asked).await;
    }
}

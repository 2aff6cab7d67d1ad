//! A provider around another one, for tests and benchmarks that delay, change or record calls.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{Evidence, ExecutionId, Outcome, ProbeResult, SandboxId, StopOutcome, Timestamp};

use crate::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, Inspect, InstanceError, InstanceId,
    KillOutcome, OutputLogs, Provider, ResizeError, SignalError, StartError, StartRequest, StdinError,
    StdinWrite, Suspect, TerminalSize, Usage, WaitError, WriteResult,
};

/// Defines [`ProviderCall`] and [`ProviderLayer`], and implements [`Provider`] for every layer.
macro_rules! provider_layer {
    (
        accessors { $($accessor:ident -> $accessed:ty;)* }
        calls { $($call:ident: $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }
    ) => {
        /// An asynchronous method of [`Provider`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProviderCall {
            $($call,)*
        }

        /// A [`Provider`] that passes its calls on to another one. A layer that treats all calls alike overrides
        /// [`around`](Self::around); an overridden method of a single call uses `around` only if it calls it.
        #[async_trait]
        pub trait ProviderLayer: Send + Sync + 'static {
            fn inner(&self) -> &dyn Provider;

            /// Runs one call of the inner provider.
            async fn around<T: Send>(&self, _call: ProviderCall, work: impl Future<Output = T> + Send) -> T {
                work.await
            }

            $(fn $accessor(&self) -> $accessed {
                self.inner().$accessor()
            })*

            $(async fn $method(&self, $($argument: $type),*) -> $answer {
                self.around(ProviderCall::$call, self.inner().$method($($argument),*)).await
            })*
        }

        #[async_trait]
        impl<L: ProviderLayer> Provider for L {
            $(fn $accessor(&self) -> $accessed {
                ProviderLayer::$accessor(self)
            })*

            $(async fn $method(&self, $($argument: $type),*) -> $answer {
                ProviderLayer::$method(self, $($argument),*).await
            })*
        }
    };
}

provider_layer! {
    accessors {
        files -> &dyn Files;
        output -> Arc<dyn OutputLogs>;
        inspect -> &dyn Inspect;
    }
    calls {
        Discover: discover() -> Result<Discovered, DiscoverError>;
        Start: start(start: StartRequest<'_>) -> Result<(), StartError>;
        Observe: observe(sandbox: SandboxId) -> Evidence;
        Probe: probe(instance: InstanceId) -> ProbeResult;
        Ping: ping(instance: InstanceId) -> ProbeResult;
        Exec: exec(instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError>;
        Wait: wait(instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError>;
        Kill: kill(instance: InstanceId, execution: ExecutionId) -> KillOutcome;
        Signal: signal(instance: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError>;
        WriteStdin: write_stdin(
            instance: InstanceId, execution: ExecutionId, write: StdinWrite<'_>
        ) -> Result<WriteResult, StdinError>;
        Resize: resize(
            instance: InstanceId, execution: ExecutionId, size: TerminalSize
        ) -> Result<(), ResizeError>;
        NextSuspect: next_suspect() -> Suspect;
        Stop: stop(instance: InstanceId, grace_ms: u64) -> StopOutcome;
        Usage: usage(instance: InstanceId) -> Result<Usage, InstanceError>;
        Capacity: capacity() -> Result<Capacity, DiscoverError>;
        KeepAlive: keep_alive(instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError>;
    }
}

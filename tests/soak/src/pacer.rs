//! The rate of cycles: the requested one, or as many as keep the machine below its target load.

/// Small steps up, so that the rate converges; a step down is proportional to the overload, but limited.
const STEP_UP: f64 = 1.02;
const LARGEST_STEP_DOWN: f64 = 0.8;
/// The rate goes up only below this fraction of the target load.
const ROOM: f64 = 0.95;
const LEAST: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pacer {
    asked: f64,
    /// Target load, as a fraction of all CPUs.
    bound: f64,
    rate: f64,
}

impl Pacer {
    pub(crate) fn new(asked: f64, bound: f64) -> Self {
        Self { asked, bound, rate: asked }
    }

    /// Cycles per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// Adapts the rate to the machine's recent load.
    pub(crate) fn adapt(&mut self, busy: f64) {
        if busy > self.bound {
            self.rate *= (self.bound / busy).max(LARGEST_STEP_DOWN);
        } else if busy < self.bound * ROOM {
            self.rate *= STEP_UP;
        }
        self.rate = self.rate.clamp(LEAST.min(self.asked), self.asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_the_requested_one_below_the_target_load() {
        let mut pacer = Pacer::new(20.0, 0.7);

        pacer.adapt(0.3);

        assert_eq!(pacer.rate(), 20.0);
    }

    #[test]
    fn rate_falls_while_the_load_is_above_the_target() {
        let mut pacer = Pacer::new(20.0, 0.7);

        pacer.adapt(0.75);
        let once = pacer.rate();
        (0..100).for_each(|_| pacer.adapt(1.0));

        assert!((18.6..18.7).contains(&once), "{once}");
        assert_eq!(pacer.rate(), LEAST);
    }

    #[test]
    fn rate_converges_just_below_the_target_load() {
        let mut pacer = Pacer::new(20.0, 0.7);

        // Each cycle takes 6 % of the machine.
        for _ in 0..200 {
            pacer.adapt((pacer.rate() * 0.06).min(1.0));
        }

        let busy = pacer.rate() * 0.06;
        assert!((0.7 * ROOM..=0.7).contains(&busy), "{busy}");
    }
}

use pillion_core::tool::ToolFailure;
use rand::rngs::SysRng;
use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;

/// A twenty-sided die. Uses ChaCha20 and this crate's own mapping from random numbers to faces, so
/// that a seed gives the same rolls in every version.
pub struct D20(ChaCha20Rng);

impl D20 {
    const D20_SIDES: u32 = 20;

    /// Creates a die like [`new`](Self::new), and converts the error to the failure of a tool.
    pub(crate) fn for_call(seed: Option<u64>) -> Result<Self, ToolFailure> {
        Self::new(seed).map_err(|_| {
            ToolFailure::internal("The operating system's random number generator failed")
        })
    }

    /// Creates a die whose rolls depend only on `seed`; without a seed, the rolls are
    /// unpredictable.
    ///
    /// # Errors
    /// [`SysError`](rand::rngs::SysError) if the operating system provides no randomness.
    pub fn new(seed: Option<u64>) -> Result<Self, rand::rngs::SysError> {
        let mut key = [0; 32];
        match seed {
            Some(seed) => key[..8].copy_from_slice(&seed.to_le_bytes()),
            None => SysRng.try_fill_bytes(&mut key)?,
        }
        Ok(Self(ChaCha20Rng::from_seed(key)))
    }

    /// Rolls the die: 1 to 20, all equally likely.
    pub fn throw(&mut self) -> i64 {
        // Numbers above the last multiple of 20 are skipped, because they would make the low faces
        // more likely.
        let fair_limit = u32::MAX - u32::MAX % Self::D20_SIDES;
        loop {
            let number = self.0.next_u32();
            if number < fair_limit {
                return i64::from(number % Self::D20_SIDES + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::D20;

    fn throws(seed: Option<u64>) -> Vec<i64> {
        let mut d20 = D20::new(seed).unwrap();
        (0..1_000).map(|_| d20.throw()).collect()
    }

    #[test]
    fn d8_equal_seeds_always_give_equal_throws() {
        assert_eq!(throws(Some(42))[..10], [12, 10, 7, 2, 7, 14, 1, 13, 12, 14]);
        assert_ne!(throws(None), throws(None));
        for face in 1..=20 {
            assert!(throws(Some(1)).contains(&face), "{face}");
        }
    }
}

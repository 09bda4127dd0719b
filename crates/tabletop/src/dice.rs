use rand::rngs::SysRng;
use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;

/// A source of throws of a die with twenty sides: ChaCha with 20 rounds and a rule of our own from
/// its numbers to faces, so that a seed gives the same throws in every version.
pub struct D20(ChaCha20Rng);

impl D20 {
    const SIDES: u32 = 20;

    /// Throws that hang on `seed` alone; without one nobody can foretell them.
    ///
    /// # Errors
    /// [`SysError`](rand::rngs::SysError) when the operating system has no randomness.
    pub fn new(seed: Option<u64>) -> Result<Self, rand::rngs::SysError> {
        let mut key = [0; 32];
        match seed {
            Some(seed) => key[..8].copy_from_slice(&seed.to_le_bytes()),
            None => SysRng.try_fill_bytes(&mut key)?,
        }
        Ok(Self(ChaCha20Rng::from_seed(key)))
    }

    /// 1 to 20, all equally likely.
    pub fn throw(&mut self) -> i64 {
        // Numbers beyond the last whole multiple of 20 would favour the low faces.
        let fair = u32::MAX - u32::MAX % Self::SIDES;
        loop {
            let number = self.0.next_u32();
            if number < fair {
                return i64::from(number % Self::SIDES + 1);
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
    fn d8_equal_seeds_give_equal_throws_for_ever() {
        assert_eq!(throws(Some(42))[..10], [12, 10, 7, 2, 7, 14, 1, 13, 12, 14]);
        assert_ne!(throws(None), throws(None));
        for face in 1..=20 {
            assert!(throws(Some(1)).contains(&face), "{face}");
        }
    }
}

use rand::rngs::SysRng;
use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;

/// A random number generator for dice.
///
/// Uses ChaCha with 20 rounds and its own mapping to die faces, so that a seed gives the same dice
/// in every version and on every machine; the range functions of `rand` may change between
/// versions.
pub struct Dice(ChaCha20Rng);

impl Dice {
    /// Creates dice whose rolls depend only on `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha20Rng::from_seed(key))
    }

    /// Creates dice with unpredictable rolls, seeded by the operating system on each call. A
    /// generator that the process stores would be copied when PHP-FPM forks, and the forks would
    /// roll the same dice.
    ///
    /// # Errors
    /// [`SysError`](rand::rngs::SysError) if the operating system provides no randomness.
    pub(super) fn from_system() -> Result<Self, rand::rngs::SysError> {
        let mut key = [0; 32];
        SysRng.try_fill_bytes(&mut key)?;
        Ok(Self(ChaCha20Rng::from_seed(key)))
    }

    /// Rolls one die: 1 to `sides`, all equally likely.
    pub(super) fn roll_die(&mut self, sides: u32) -> u32 {
        // Numbers beyond the last whole multiple of `sides` are rejected, because they would favor
        // the low faces.
        let fair_limit = u32::MAX - u32::MAX % sides;
        loop {
            let number = self.0.next_u32();
            if number < fair_limit {
                return number % sides + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn d3_seeded_dice_never_change() {
        let mut dice = Dice::from_seed(42);
        let rolls: Vec<_> = (0..10).map(|_| dice.roll_die(20)).collect();
        assert_eq!(rolls, [12, 10, 7, 2, 7, 14, 1, 13, 12, 14]);
    }

    #[test]
    fn d3_every_face_comes_up() {
        let mut dice = Dice::from_seed(1);
        let mut faces = [0; 6];
        for _ in 0..6_000 {
            faces[dice.roll_die(6) as usize - 1] += 1;
        }
        assert!(
            faces.iter().all(|count| (800..1_200).contains(count)),
            "{faces:?}"
        );
    }

    #[test]
    fn d3_unseeded_dice_differ() {
        let roll = || {
            let mut dice = Dice::from_system().unwrap();
            (0..20).map(|_| dice.roll_die(1_000)).collect::<Vec<_>>()
        };
        assert_ne!(roll(), roll());
    }
}

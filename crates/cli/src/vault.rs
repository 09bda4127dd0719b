mod rotate;

commands! {
    /// Rotates the key that encrypts stored credentials
    #[command(after_help = examples!["pillion vault rotate --config /etc/pillion/pillion.toml"])]
    pub(super) enum VaultCommand: () {
        Rotate(rotate::RotateKey),
    }
}

use async_trait::async_trait;
use pillion_core::store::{
    SealedSecret, SecretId, SecretKind, SecretReplacement, SecretStore, StoreError,
};

use crate::Result;
use crate::database::{Row, unreadable_column};
use crate::sql_store::SqlStore;

#[async_trait]
impl SecretStore for SqlStore {
    async fn put_secret(&self, secret_id: &SecretId, secret: &SealedSecret) -> Result<()> {
        let sql = "INSERT INTO secrets (kind, id, key_id, sealed) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (kind, id) \
                   DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed";
        let values = vec![
            secret_id.kind.as_str().into(),
            (&secret_id.id).into(),
            (&secret.key_id).into(),
            secret.sealed.as_slice().into(),
        ];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn find_secret(&self, secret_id: &SecretId) -> Result<Option<SealedSecret>> {
        let sql = "SELECT key_id, sealed FROM secrets WHERE kind = $1 AND id = $2";
        let values = vec![secret_id.kind.as_str().into(), (&secret_id.id).into()];
        let row = self.database.read_one(sql, values).await?;
        row.as_ref().map(read_secret).transpose()
    }

    async fn remove_secret(&self, secret_id: &SecretId) -> Result<()> {
        let sql = "DELETE FROM secrets WHERE kind = $1 AND id = $2";
        let values = vec![secret_id.kind.as_str().into(), (&secret_id.id).into()];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn secrets(&self) -> Result<Vec<(SecretId, SealedSecret)>> {
        let sql = "SELECT kind, id, key_id, sealed FROM secrets ORDER BY kind, id";
        let rows = self.database.read(sql, vec![]).await?;
        rows.iter()
            .map(|row| {
                let kind = SecretKind::from_name(&row.text("kind")?)
                    .ok_or_else(|| unreadable_column("kind"))?;
                let id = row.text("id")?;
                Ok((SecretId { kind, id }, read_secret(row)?))
            })
            .collect()
    }

    async fn replace_secrets(&self, replacements: &[SecretReplacement]) -> Result<()> {
        let conflict_error =
            || StoreError::conflict("another process changed the secrets in the meantime");
        let mut transaction = self.database.begin().await?;
        transaction.lock_table("secrets").await?;
        let sql = "SELECT COUNT(*) AS number FROM secrets";
        let rows = transaction.read(sql, vec![]).await?;
        let secret_count = rows.first().map_or(Ok(0), |row| row.count("number"))?;
        if usize::try_from(secret_count) != Ok(replacements.len()) {
            return Err(conflict_error());
        }
        for SecretReplacement {
            secret_id,
            old_secret,
            new_secret,
        } in replacements
        {
            let sql = "UPDATE secrets SET key_id = $5, sealed = $6 \
                       WHERE kind = $1 AND id = $2 AND key_id = $3 AND sealed = $4";
            let values = vec![
                secret_id.kind.as_str().into(),
                (&secret_id.id).into(),
                (&old_secret.key_id).into(),
                old_secret.sealed.as_slice().into(),
                (&new_secret.key_id).into(),
                new_secret.sealed.as_slice().into(),
            ];
            if transaction.write(sql, values).await? != 1 {
                return Err(conflict_error());
            }
        }
        transaction.commit().await
    }
}

fn read_secret(row: &Row) -> Result<SealedSecret> {
    Ok(SealedSecret {
        key_id: row.text("key_id")?,
        sealed: row.bytes("sealed")?,
    })
}

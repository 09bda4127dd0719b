use async_trait::async_trait;
use pillion_core::store::{AccessToken, AccessTokenStore, StoreError, Timestamp};

use crate::Result;
use crate::database::{Row, unreadable_column};
use crate::sql_store::SqlStore;

#[async_trait]
impl AccessTokenStore for SqlStore {
    async fn insert_access_token(&self, token: &AccessToken) -> Result<()> {
        let sql = "INSERT INTO access_tokens \
                   (hash, name, scopes, created_at, expires_at, last_used_at, revoked_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let values = vec![
            (&token.hash).into(),
            (&token.name).into(),
            serde_json::Value::from(token.scopes.clone())
                .to_string()
                .into(),
            token.created_at.into(),
            token.expires_at.into(),
            token.last_used_at.into(),
            token.revoked_at.into(),
        ];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn find_access_token(&self, hash: &str) -> Result<Option<AccessToken>> {
        let sql = "SELECT * FROM access_tokens WHERE hash = $1";
        let row = self.database.read_one(sql, vec![hash.into()]).await?;
        row.as_ref().map(read_token).transpose()
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        let sql = "SELECT * FROM access_tokens ORDER BY name";
        let rows = self.database.read(sql, vec![]).await?;
        rows.iter().map(read_token).collect()
    }

    async fn mark_access_token_used(&self, hash: &str, used_at: Timestamp) -> Result<()> {
        let sql = "UPDATE access_tokens SET last_used_at = $2 WHERE hash = $1";
        let values = vec![hash.into(), used_at.into()];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn revoke_access_token(&self, name: &str, revoked_at: Timestamp) -> Result<()> {
        let sql = "UPDATE access_tokens SET revoked_at = COALESCE(revoked_at, $2) WHERE name = $1";
        let values = vec![name.into(), revoked_at.into()];
        match self.database.write(sql, values).await? {
            0 => Err(StoreError::not_found(format!(
                "the access token '{name}' does not exist"
            ))),
            _ => Ok(()),
        }
    }
}

fn read_token(row: &Row) -> Result<AccessToken> {
    let scopes = serde_json::from_str(&row.text("scopes")?);
    Ok(AccessToken {
        hash: row.text("hash")?,
        name: row.text("name")?,
        scopes: scopes.map_err(|error| unreadable_column("scopes").with_source(error))?,
        created_at: row.timestamp("created_at")?,
        expires_at: row.optional_timestamp("expires_at")?,
        last_used_at: row.optional_timestamp("last_used_at")?,
        revoked_at: row.optional_timestamp("revoked_at")?,
    })
}

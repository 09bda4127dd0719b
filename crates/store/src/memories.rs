use async_trait::async_trait;
use pillion_core::store::{
    Memory, MemoryCategory, MemorySearch, MemoryStore, StoreError, Timestamp,
};

use crate::database::{Row, Value, unreadable};
use crate::sql_store::SqlStore;

#[async_trait]
impl MemoryStore for SqlStore {
    async fn insert_memory(&self, memory: &Memory) -> Result<(), StoreError> {
        let sql = "INSERT INTO memories (id, channel, user_name, category, content, \
                   content_lower, importance, created_at, last_accessed_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let values = vec![
            (&memory.id).into(),
            (&memory.channel).into(),
            (&memory.user).into(),
            memory.category.as_str().into(),
            (&memory.content).into(),
            memory.content.to_lowercase().into(),
            i64::from(memory.importance).into(),
            memory.created_at.into(),
            memory.last_accessed_at.into(),
        ];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn search_memories(
        &self,
        search: &MemorySearch,
        now: Timestamp,
    ) -> Result<Vec<Memory>, StoreError> {
        let words = search.words();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut sql = "SELECT * FROM memories WHERE channel = $1 \
                       AND (user_name IS NULL OR user_name = $2)"
            .to_owned();
        let mut values: Vec<Value> = vec![(&search.channel).into(), (&search.user).into()];
        for word in &words {
            values.push(pattern(word).into());
            sql += &format!(" AND content_lower LIKE ${} ESCAPE '\\'", values.len());
        }
        values.push(i64::from(search.limit).into());
        sql += &format!(
            " ORDER BY importance DESC, last_accessed_at DESC, id LIMIT ${}",
            values.len()
        );
        let rows = self.database.read(&sql, values).await?;
        let mut found: Vec<Memory> = rows.iter().map(read).collect::<Result<_, _>>()?;
        for memory in &mut found {
            let sql = "UPDATE memories SET last_accessed_at = $2 WHERE id = $1";
            let values = vec![(&memory.id).into(), now.into()];
            self.database.write(sql, values).await?;
            memory.last_accessed_at = now;
        }
        Ok(found)
    }

    async fn remove_memory(&self, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM memories WHERE id = $1";
        match self.database.write(sql, vec![id.into()]).await? {
            0 => Err(StoreError::not_found("there is no memory of that id")),
            _ => Ok(()),
        }
    }
}

/// A pattern of LIKE for texts that contain the word as it stands.
fn pattern(word: &str) -> String {
    let mut pattern = "%".to_owned();
    for character in word.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

fn read(row: &Row) -> Result<Memory, StoreError> {
    let category = MemoryCategory::from_name(&row.text("category")?);
    let importance = u8::try_from(row.integer("importance")?);
    Ok(Memory {
        id: row.text("id")?,
        channel: row.text("channel")?,
        user: row.optional_text("user_name")?,
        category: category.ok_or_else(|| unreadable("category"))?,
        content: row.text("content")?,
        importance: importance.map_err(|_| unreadable("importance"))?,
        created_at: row.moment("created_at")?,
        last_accessed_at: row.moment("last_accessed_at")?,
    })
}

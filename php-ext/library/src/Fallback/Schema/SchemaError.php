<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * A schema that is invalid or not supported.
 *
 * @internal
 */
final class SchemaError extends \Exception
{
    /** @param string $path the location in the schema, as a JSON Pointer */
    public function __construct(string $path, string $reason)
    {
        parent::__construct("Invalid JSON Schema at '$path': $reason");
    }
}

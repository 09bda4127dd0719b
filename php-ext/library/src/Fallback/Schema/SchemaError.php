<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * A schema that cannot be used.
 *
 * @internal
 */
final class SchemaError extends \Exception
{
    /** @param string $path where in the schema, as a JSON pointer */
    public function __construct(string $path, string $reason)
    {
        parent::__construct("Invalid JSON Schema at '$path': $reason");
    }
}

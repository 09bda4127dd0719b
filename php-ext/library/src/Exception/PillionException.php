<?php

declare(strict_types=1);

namespace Pillion\Exception;

/**
 * Everything that the extension throws on purpose.
 */
class PillionException extends \RuntimeException
{
    /** One of the codes of {@see \Pillion\ToolResult::$errorCode}. */
    public string $errorCode = 'internal_error';
}

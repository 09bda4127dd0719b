<?php

declare(strict_types=1);

namespace Pillion\Exception;

/**
 * The base class of all exceptions that Pillion throws.
 */
class PillionException extends \RuntimeException
{
    /** One of the codes of {@see \Pillion\ToolResult::$errorCode}. */
    public string $errorCode = 'internal_error';
}

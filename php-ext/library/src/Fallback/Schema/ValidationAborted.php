<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * A check that was aborted: a malicious server may send a schema that cannot be checked in reasonable time.
 *
 * @internal
 */
final class ValidationAborted extends \Exception
{
}

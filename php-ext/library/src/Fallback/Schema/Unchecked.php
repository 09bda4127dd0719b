<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * A check that came to no end: a schema may come from a server that means no good.
 *
 * @internal
 */
final class Unchecked extends \Exception
{
}

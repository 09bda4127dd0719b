<?php

declare(strict_types=1);

namespace Pillion;

/** How far a call has come, as the server says. */
final class Progress
{
    /**
     * @param float   $progress how much is done
     * @param ?float  $total    how much there is to do, where the server knows
     * @param ?string $message  what is being done, for people
     */
    public function __construct(
        public readonly float $progress,
        public readonly ?float $total = null,
        public readonly ?string $message = null,
    ) {
    }
}

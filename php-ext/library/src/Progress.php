<?php

declare(strict_types=1);

namespace Pillion;

/** The progress of a call, as reported by the server. */
final class Progress
{
    /**
     * @param float   $progress the amount that is done
     * @param ?float  $total    the total amount, if known
     * @param ?string $message  a human-readable description of the current step
     */
    public function __construct(
        public readonly float $progress,
        public readonly ?float $total = null,
        public readonly ?string $message = null,
    ) {
    }
}

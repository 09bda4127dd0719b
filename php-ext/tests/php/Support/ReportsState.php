<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A server script that reports its state at `/seen`. */
trait ReportsState
{
    private readonly ServerScript $server;

    /** @return array<string, mixed> */
    public function seen(): array
    {
        $seen = (string) file_get_contents("http://127.0.0.1:{$this->server->firstLine}/seen");
        return json_decode($seen, true, flags: JSON_THROW_ON_ERROR);
    }

    /**
     * Waits until the state is as expected, or until a timeout.
     *
     * @param callable(array<string, mixed>): bool $is
     *
     * @return array<string, mixed>
     */
    public function seenWhen(callable $is): array
    {
        for ($tries = 0; !$is($seen = $this->seen()) && $tries < 3_000; $tries++) {
            usleep(20_000);
        }
        return $seen;
    }
}

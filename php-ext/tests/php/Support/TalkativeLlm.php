<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A language model that says very much, and how much of that it got rid of. */
final class TalkativeLlm
{
    private readonly ServerScript $server;

    /** Below which it speaks as OpenAI's chat completions. */
    public readonly string $url;

    public function __construct()
    {
        $this->server = new ServerScript(['python3'], 'talkative_llm.py');
        $this->url = "http://127.0.0.1:{$this->server->firstLine}/v1";
    }

    /** @return array{sent: int, talking: int} */
    public function seen(): array
    {
        $seen = (string) file_get_contents("http://127.0.0.1:{$this->server->firstLine}/seen");
        return json_decode($seen, true, flags: JSON_THROW_ON_ERROR);
    }

    /**
     * Waits until what was seen is as it should be, or for a while.
     *
     * @param callable(array{sent: int, talking: int}): bool $is
     *
     * @return array{sent: int, talking: int}
     */
    public function seenWhen(callable $is): array
    {
        for ($tries = 0; !$is($seen = $this->seen()) && $tries < 3_000; $tries++) {
            usleep(20_000);
        }
        return $seen;
    }

    /** Waits until it gets rid of no more, or of more than `$bytes`; how much that is. */
    public function sentAtRest(int $bytes): int
    {
        $sent = -1;
        $quiet = 0;
        $this->seenWhen(function (array $seen) use (&$sent, &$quiet, $bytes): bool {
            $quiet = $seen['sent'] === $sent ? $quiet + 1 : 0;
            $sent = $seen['sent'];
            return $quiet === 25 || $sent > $bytes;
        });
        return $sent;
    }
}

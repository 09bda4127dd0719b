<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A language model with very long answers. Reports the `sent` bytes and the number of clients (`talking`). */
final class TalkativeLlm
{
    use ReportsState;

    /** The base URL of its OpenAI-compatible API. */
    public readonly string $url;

    public function __construct()
    {
        $this->server = new ServerScript(['python3'], 'talkative_llm.py');
        $this->url = "http://127.0.0.1:{$this->server->firstLine}/v1";
    }

    /** Waits until the model cannot send more, or has sent more than `$bytes`; returns the sent bytes. */
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

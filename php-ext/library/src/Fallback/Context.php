<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The parsed `$context` array of calls.
 *
 * @internal
 */
final class Context
{
    /**
     * @param array<string, mixed> $extra    values for the tools
     * @param list<string>         $approved approval IDs
     * @param list<string>         $denied
     * @param array<string, array<string, mixed>> $approvedArguments arguments with which approved calls run
     *                                                               instead of their own, by approval ID
     */
    private function __construct(
        public readonly ?string $user = null,
        public readonly ?string $channel = null,
        public readonly array $extra = [],
        public readonly array $approved = [],
        public readonly array $denied = [],
        public readonly array $approvedArguments = [],
    ) {
    }

    /**
     * @param array<array-key, mixed> $context
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function fromArray(array $context): self
    {
        $tree = Json::toTree($context, 'argument $context');
        if (is_array($tree) && $tree !== []) {
            throw Failure::invalidInput('The context must be an array with names as keys');
        }
        $extra = Json::toArrays($tree);
        $user = self::text($extra, 'user');
        $channel = self::text($extra, 'channel');
        $approvedArguments = array_filter((array) ($extra['approved'] ?? []), is_array(...));
        $approved = array_diff_key((array) ($extra['approved'] ?? []), $approvedArguments);
        $approved = self::ids(['approved' => is_array($extra['approved'] ?? []) ? array_values($approved) : false], 'approved');
        $denied = self::ids($extra, 'denied');
        if (array_filter(array_keys($approvedArguments), is_int(...)) !== []) {
            throw Failure::invalidInput("The context's 'approved' must be a list of approval ids");
        }
        unset($extra['user'], $extra['channel'], $extra['approved'], $extra['denied']);
        return new self($user, $channel, $extra, [...$approved, ...array_keys($approvedArguments)], $denied, $approvedArguments);
    }

    /**
     * @return array<string, string> the headers for the sidecar
     *
     * @throws \Pillion\Exception\InvalidInputException when a value contains characters that are not allowed in a header
     */
    public function headers(): array
    {
        $id = $this->extra['request_id'] ?? null;
        $headers = [
            'x-pillion-user' => $this->user,
            'x-pillion-channel' => $this->channel,
            'x-request-id' => is_string($id) ? $id : null,
            'x-pillion-approval' => $this->readString('approval'),
            'x-pillion-approval-wait-ms' => $this->approvalWait(),
            'idempotency-key' => $this->readString('idempotency_key'),
        ];
        $headers = array_filter($headers, is_string(...));
        foreach ($headers as $name => $value) {
            if (preg_match('/[^\t\x20-\x7e\x80-\xff]/', $value) === 1) {
                throw Failure::invalidInput("The value of the header $name has characters that are not allowed in a header");
            }
        }
        return $headers;
    }

    private function readString(string $key): ?string
    {
        $text = $this->extra[$key] ?? null;
        return $text === null || is_string($text) ? $text : throw Failure::invalidInput("The context's '$key' must be a string");
    }

    /**
     * Returns the time to wait for an approval, in whole milliseconds; null if the context sets
     * none.
     */
    private function approvalWait(): ?string
    {
        $seconds = $this->extra['approval_wait'] ?? null;
        return match (true) {
            $seconds === null => null,
            (is_int($seconds) || is_float($seconds)) && !is_nan((float) $seconds) && $seconds >= 0 && $seconds < 1e12 => (string) (int) ($seconds * 1000),
            default => throw Failure::invalidInput("The context's 'approval_wait' must be a number of seconds"),
        };
    }

    public static function none(): self
    {
        return new self();
    }

    /**
     * Returns the context for PHP code, with the ID of the approval that the call needs instead of the
     * approval IDs in the context.
     *
     * @return array<string, mixed>
     */
    public function toArray(?string $approval): array
    {
        $reserved = ['user' => $this->user, 'channel' => $this->channel, 'approval_id' => $approval];
        return array_filter($reserved, is_string(...)) + array_diff_key($this->extra, $reserved);
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return list<string>
     */
    private static function ids(array $context, string $key): array
    {
        $ids = $context[$key] ?? [];
        if (!is_array($ids) || !array_is_list($ids) || array_filter($ids, is_string(...)) !== $ids) {
            throw Failure::invalidInput("The context's '$key' must be a list of approval ids");
        }
        return $ids;
    }

    /** @param array<string, mixed> $context */
    private static function text(array $context, string $key): ?string
    {
        $value = $context[$key] ?? null;
        return match (true) {
            $value === null, is_string($value) => $value,
            // Applications often have numbers as user IDs.
            is_int($value), is_float($value) => Json::encode($value),
            default => throw Failure::invalidInput("The context's '$key' must be a string"),
        };
    }
}

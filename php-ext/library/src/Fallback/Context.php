<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The array `$context` that goes along with calls.
 *
 * @internal
 */
final class Context
{
    /** @param array<string, mixed> $extra what is for the tools */
    private function __construct(
        public readonly ?string $user,
        public readonly ?string $channel,
        public readonly array $extra,
    ) {
    }

    /**
     * @param array<array-key, mixed> $context
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function of(array $context): self
    {
        $tree = Json::tree($context);
        if (is_array($tree) && $tree !== []) {
            throw Failure::invalidInput('The context must be an array with names as keys');
        }
        $extra = Json::arrays($tree);
        $user = self::text($extra, 'user');
        $channel = self::text($extra, 'channel');
        unset($extra['user'], $extra['channel']);
        return new self($user, $channel, $extra);
    }

    /**
     * @return array<string, string> the headers of the sidecar
     *
     * @throws \Pillion\Exception\InvalidInputException for what no header can carry
     */
    public function headers(): array
    {
        $id = $this->extra['request_id'] ?? null;
        $headers = [
            'x-pillion-user' => $this->user,
            'x-pillion-channel' => $this->channel,
            'x-request-id' => is_string($id) ? $id : null,
        ];
        $headers = array_filter($headers, is_string(...));
        foreach ($headers as $name => $value) {
            if (preg_match('/[^\t\x20-\x7e\x80-\xff]/', $value) === 1) {
                throw Failure::invalidInput("The value for the header $name has characters that no header can carry");
            }
        }
        return $headers;
    }

    public static function none(): self
    {
        return new self(null, null, []);
    }

    /** @param array<string, mixed> $context */
    private static function text(array $context, string $key): ?string
    {
        $value = $context[$key] ?? null;
        return match (true) {
            $value === null, is_string($value) => $value,
            // User ids are often numbers.
            is_int($value), is_float($value) => Json::encode($value),
            default => throw Failure::invalidInput("The context's '$key' must be a string"),
        };
    }
}

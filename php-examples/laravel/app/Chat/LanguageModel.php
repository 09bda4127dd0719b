<?php

declare(strict_types=1);

namespace App\Chat;

use RuntimeException;

/** A language model behind an endpoint in OpenAI's shape (`POST .../chat/completions`). */
class LanguageModel
{
    public function __construct(
        private readonly string $url,
        #[\SensitiveParameter]
        private readonly ?string $key,
    ) {
    }

    /**
     * @param list<array<string, mixed>> $messages
     * @param list<array<string, mixed>> $tools
     *
     * @return array<string, mixed> the body of the response
     */
    public function complete(string $model, array $messages, array $tools): array
    {
        $body = ['model' => $model, 'messages' => $messages] + ($tools === [] ? [] : ['tools' => $tools]);
        $curl = curl_init(rtrim($this->url, '/') . '/chat/completions');
        curl_setopt_array($curl, [
            CURLOPT_POST => true,
            CURLOPT_POSTFIELDS => json_encode($body, JSON_THROW_ON_ERROR),
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT => 120,
            CURLOPT_HTTPHEADER => [
                'Content-Type: application/json',
                ...($this->key === null || $this->key === '' ? [] : ["Authorization: Bearer $this->key"]),
            ],
        ]);
        $answer = curl_exec($curl);
        if (!is_string($answer)) {
            throw new RuntimeException('The language model cannot be reached: ' . curl_error($curl));
        }
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $response = json_decode($answer, true);
        if ($status !== 200 || !is_array($response)) {
            throw new RuntimeException("The language model answered with HTTP $status");
        }
        return $response;
    }
}

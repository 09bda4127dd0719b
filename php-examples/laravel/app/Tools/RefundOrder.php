<?php

declare(strict_types=1);

namespace App\Tools;

use Pillion\AsTool;
use Pillion\Parameter;

/** Pays the price of an order back. */
#[AsTool(name: 'refund_order', requiresConfirmation: true)]
class RefundOrder
{
    public function __invoke(
        #[Parameter(description: 'The number of the order')]
        int $order,
        #[Parameter(description: 'What the customer is told')]
        string $reason = 'We are sorry.',
    ): string {
        return "Order $order is refunded: $reason";
    }
}
